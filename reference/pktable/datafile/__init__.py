"""Data files: their columns, and readers of rows in Parquet, ORC and Avro."""
