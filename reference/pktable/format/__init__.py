"""A table's metadata: bytes to values and back, without any I/O. Data files have a package of their own."""
