"""The RoaringBitmap table of PIP-16, measured again: Java, Python and ours side by side on the same positions."""
