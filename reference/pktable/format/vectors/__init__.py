"""Encode and decode deletion vectors and DV index files."""
