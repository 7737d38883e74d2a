"""Merge the records of each key, with Arrow and numpy, without files."""
