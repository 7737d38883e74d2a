"""Spark's part in the work on tables of Apache Hudi. Only this folder of the package imports pyspark."""
