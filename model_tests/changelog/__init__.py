"""Changelog files: what is recorded, how it is read, and what becomes of the files."""
