"""Take the caller's rows, check them, and bring them to the table's columns and types, before any write."""
