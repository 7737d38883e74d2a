"""Bytes and values: every file of a table but its Parquet data, decoded and encoded. No I/O."""
