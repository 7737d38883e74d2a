"""Conformance with real Paimon implementations: the JVM's, Python's and Rust's, each in a process of its own."""
