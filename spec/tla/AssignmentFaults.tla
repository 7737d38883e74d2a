-------------------------- MODULE AssignmentFaults --------------------------
(* Faults of Assignment, each one operator done wrong; see Faults. *)
EXTENDS Assignment

\* A commit does not look at the index: the files of the later writer replace those of the earlier.
LastWins(w) == TRUE

\* A commit joins both indexes, which have given one key two buckets.
Joined(w) == [b \in Buckets |-> index[b] \cup writing[w].after[b]]

\* A deletion does not look, and so deletes nothing in the bucket that its key has got.
LastDeletionWins(w) == writing[w].work = "delete" \/ writing[w].version = version

\* All keys go to the first bucket.
Crowded(in) == 0
=============================================================================
