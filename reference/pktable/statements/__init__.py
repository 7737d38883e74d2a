"""UPDATE, DELETE and MERGE: statements that compute a table's changes from its own rows and from those of a source.

1. `names` turns the caller's SQL text into typed expressions over the columns ``target.x`` and ``source.x``.
2. `plan` holds a statement as data: its join, and clauses of which the first that holds decides about a row.
3. `arrow_rows` evaluates a plan on Arrow tables; the Spark runner evaluates the same plan on DataFrames.
4. `sources` brings the caller's source to Arrow.

The result is rows of changes (all columns of the table and a row kind), which are written like any others.

Clauses: STM-1 to STM-9.
"""
