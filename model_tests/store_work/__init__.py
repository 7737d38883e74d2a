"""What scripted work does on the store: which files it reads, writes, looks for and removes, and what it writes."""
