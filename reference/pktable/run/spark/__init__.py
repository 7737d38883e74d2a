"""The only part that imports pyspark: hands bucket work to executors, and reads with Spark's own scan."""
