"""Apache Hudi's merge-on-read tables: their timeline, their file slices, and their rows at every instant.

This package is a layer of its own, above `pktable.table` and below the command line. It shares with Paimon's tables the
layers below that know neither: the store, the types, the readers of data files, the conditions and Spark's wire.
Paimon's tables know nothing of it. The bytes are in `pktable.format.hudi`.

1. `settings` reads a table's properties and refuses what is not implemented.
2. `timeline` says which instants are complete.
3. `slices` finds the base file and the log files of each file group as of an instant.
4. `log_scan` finds the blocks that count, `log_rows` makes columns of them.
5. `merge` folds the records of each key, and `slice_read` merges them into the rows of the base file.
6. `lookup` finds keys by the indexes of log files, which `index_writer` makes.
7. `writable` refuses tables that are not written, and `incoming` rows that do not fit.
8. `actions` begins and ends writes on the timeline, so that writers need no lock.
9. `placing` gives each row to a file group, `group_write` writes a file of one, and `compaction` merges its files.
10. `check` reports damage. `scan`, `writer` and `table` are the face.
"""
