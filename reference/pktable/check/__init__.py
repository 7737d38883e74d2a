"""Walk a table, ours or anyone's, and report every invariant that does not hold.

`heads` finds what can be read: snapshots and tags. `history` folds their manifests one after the other and
gives each bucket its versions. `bucket` checks one bucket: the versions against each other (`layout`), the
vectors (`vectors`), each data file's rows once (`rows`), and the rows of a key against each other over all
versions at once (`keys`). `unreferenced` finds files that nothing reads. Nothing stops at the first damage.
"""
