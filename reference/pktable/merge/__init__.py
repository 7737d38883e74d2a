"""Merging the records of a key, in Arrow and numpy; no files."""
