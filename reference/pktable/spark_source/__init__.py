"""The data source ``pktable`` of Spark, in pure Python: `data_source` is its face.

Spark makes its parts in several processes, pickles them, and calls each method where it likes: the plan in one process,
tasks in others, the commit in a third. So parts keep options and a schema, never a table, and open the table where they
need it. What a method of one process has to tell one of another travels in partitions, offsets and commit messages.
"""
