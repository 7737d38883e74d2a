"""Deletion vectors and the files that hold them: bytes to values and back."""
