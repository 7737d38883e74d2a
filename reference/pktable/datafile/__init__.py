"""Data files: their columns, and rows as Parquet, ORC and Avro store them."""
