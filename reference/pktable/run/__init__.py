"""Who does the work on buckets: this process, or a Spark cluster."""
