-------------------------- MODULE MovingKeysFaults --------------------------
(* Faults of MovingKeys, each one operator done wrong; see Faults. *)
EXTENDS MovingKeys

\* A commit does not look whether others have written the key.
NobodyElse(w) == TRUE

\* A writer looks for the place above level 0 only.
PlaceAbove(k) == IF \E p \in Partitions : k \in folded[p] THEN CHOOSE p \in Partitions : k \in folded[p] ELSE Nowhere

\* A row that goes elsewhere leaves no retraction.
LeftIfDeleted(job) == IF job.to = Nowhere THEN {job.from} \ {Nowhere} ELSE {}

\* A compaction takes some of the partitions.
SomeTaken == SUBSET Partitions \ {{}}

\* A compaction is committed for the partitions that others have not changed.
CommittedInPart(c) == {p \in Partitions : InputsAreLive(c, p)}
=============================================================================
