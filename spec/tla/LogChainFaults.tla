--------------------------- MODULE LogChainFaults --------------------------
(* Faults of LogChain, each one operator done wrong; see Faults. *)
EXTENDS LogChain

\* An index is extended although a compaction was completed since.
ExtendsAnything(log) == TRUE

\* A new clique forgets the one before.
PointsNowhere(log) == 0

\* A chain ends where a file is missing.
EndsAtMissing(log) == FALSE

\* Every file that is named must be there.
BelongsForever(log) == TRUE
=============================================================================
