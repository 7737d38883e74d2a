---------------------------- MODULE ValueLookup ----------------------------
(* DeletionVectors where a lookup returns records, not only positions.

   The record that a compaction replaces takes part in the merge, and its position
   is deleted.  Merge engines that need the older row ask for it (MaxEngine),
   and so does another order than that of the commits (UserSequence).  A model
   replaces operators of Bucket by these.                                   *)
EXTENDS DeletionVectors

RowsLookedUp(b, group, level) ==
  {Records(b, p[1])[p[2]] : p \in Lookup(b, KeysToLookUp(b, group), level)}

\* A file that leaves level 0 must then be rewritten, unless it goes to the last
\* level: no level is deeper, so a lookup would find nothing.
RewrittenOutOfLevelZero(b, e, pick) ==
  \/ (Level(e) = 0 /\ pick.level < MaxLevel)
  \/ (HasRetraction(b, e) /\ (Level(e) = 0 \/ pick.level = MaxLevel))
  \/ (pick.full /\ HasVector(b, e))
=============================================================================
