"""Hudi's log files and tables: their bytes, and their rows at every instant."""
