"""The work on the files of one bucket, in Arrow: write a run, merge, locate keys, compact, read."""
