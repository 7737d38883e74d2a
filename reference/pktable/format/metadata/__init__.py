"""Schemas, snapshots, manifests and statistics: bytes to values and back."""
