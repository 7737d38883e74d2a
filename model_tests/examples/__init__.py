"""Examples of the clauses, made by the oracle, from the fixtures and on small tables: the folder `spec/examples`.

``python -m model_tests.examples`` writes the pages again; a test compares them. `WITHOUT` says which clauses on bytes,
merging, compaction and deletion vectors have none, and why.
"""
