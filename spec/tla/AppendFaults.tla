---------------------------- MODULE AppendFaults ---------------------------
(* Faults of AppendTable, each one operator done wrong; see Faults. *)
EXTENDS AppendTable

\* A commit does not look at the vectors of others.  So Paimon does in buckets.
IgnoresIndexes(work) == TRUE

\* A vector is written next to the one that its file has.
TouchesNothing(change) == {}

\* A bucket gets a second DV index file, as if there were no buckets.
AddsToTheBucket(change) ==
  {index \in indexes : FilesOf(index.deleted) \cap (FilesOf(change.places) \cup change.removed) # {}}

\* Files that others have removed are removed again.
RemovesGoneFiles(some) == TRUE

\* A compaction does not see that rows were deleted since it read them.
ForgetsDeletes(change) == TRUE

\* A change does not see that others have deleted its rows.
ChangesDeletedRows(change) == TRUE

\* A vector may name a file that others have removed.
NamesAnyFile(work) == TRUE

\* A change that fits no more is prepared again, and not computed again.
PreparesAnything(change) == TRUE
=============================================================================
