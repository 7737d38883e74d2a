"""The specification: clauses, vocabulary, errors, and the in-memory oracle. Standard library only."""
