"""Where Spark finds the data source ``pktable``: it looks into every package whose name begins with ``pyspark_``."""

from pktable.spark_source.data_source import PkTableSource as DefaultSource

__all__ = ["DefaultSource"]
