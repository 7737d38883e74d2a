"""Check a table, written by us or by anyone, and report every invariant that does not hold.

The steps, each in a module of its own:

1. `readable_snapshots` finds the schemas, the snapshots and the tags that can be read.
2. `history` folds their manifests (`manifests`), oldest snapshot first, and gives the versions of each bucket.
3. `bucket` checks one bucket: the versions against each other (`layout`), the deletion vectors (`vectors`), the rows
   of each data file (`rows`), and the records of each key over all versions (`keys`, `intervals`).
4. `row_ids` compares the ids of rows over all buckets, in a table with row tracking.
5. `unreferenced` reports files that nothing refers to.

`walk` runs these steps, and `findings` collects what they find.

A check goes on after damage and reports all of it. Therefore it does not use `pktable.catalog`, which raises at the
first error: it reads snapshots, schemas and manifests itself, with the same decoders.
"""
