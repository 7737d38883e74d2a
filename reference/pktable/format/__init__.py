"""Bytes and values of a table's metadata: decoded and encoded, without any I/O. Data files have a package of their own."""
