"""Encode and decode schemas, snapshots, manifests and statistics."""
