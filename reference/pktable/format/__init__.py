"""Decode and encode the metadata of a table: bytes to values and back, without I/O. Data files: `pktable.datafile`."""
