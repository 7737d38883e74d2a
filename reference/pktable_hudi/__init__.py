"""Apache Hudi's merge-on-read tables: their timeline, their file slices, and their rows at every instant.

This package stands above all of `pktable`. It uses the layers there that know neither kind of table: the store, the
types, the readers of data files, the conditions, Spark's wire and the frame of the command line. `pktable` imports
nothing of it. The bytes are in `pktable_hudi.format`, and all of pyspark in `pktable_hudi.spark`.

1. `settings` reads a table's properties and refuses what is not implemented.
2. `timeline` says which instants are complete.
3. `slices` finds the base file and the log files of each file group as of an instant.
4. `log_scan` finds the blocks that count, `log_rows` makes columns of them.
5. `merge` folds the records of each key, and `slice_read` merges them into the rows of the base file.
6. `lookup` finds keys by the indexes of log files, which `index_writer` makes.
7. `writable` refuses tables that are not written, and `incoming` rows that do not fit.
8. `actions` begins and ends writes on the timeline, so that writers need no lock.
9. `placing` gives each row to a file group, `group_write` writes a file of one, and `compaction` merges its files.
10. `check` reports damage. `scan`, `writer`, `table` and `commands` are the face.
"""
