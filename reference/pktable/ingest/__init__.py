"""The caller's rows, checked and brought to the table's columns and types before anything is written."""
