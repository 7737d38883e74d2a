"""Tables whose number of buckets is not fixed."""
