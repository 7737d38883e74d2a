---------------------------- MODULE ValueLookup ----------------------------
(* DeletionVectors where a lookup returns values, not only positions.

   A record that a compaction replaces takes part in the merge before its
   position is deleted.  An engine that needs the old row wants that (MaxEngine),
   and so does an order that is not that of the commits (UserSequence).  A model
   replaces operators of Bucket by these.                                   *)
EXTENDS DeletionVectors

RowsLookedUp(b, group, level) ==
  {Records(b, p[1])[p[2]] : p \in Lookup(b, KeysToLookUp(b, group), level)}

\* Then a file must be rewritten when it leaves level 0; at the last level there
\* is nothing to look up.
RewrittenOutOfLevelZero(b, e, pick) ==
  \/ (Level(e) = 0 /\ pick.level < MaxLevel)
  \/ (HasRetraction(b, e) /\ (Level(e) = 0 \/ pick.level = MaxLevel))
  \/ (pick.full /\ HasVector(b, e))
=============================================================================
