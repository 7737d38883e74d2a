"""The judge of histories: what a table under test must show after each operation, by the oracle."""
