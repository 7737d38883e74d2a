---------------------------- MODULE UserSequence ---------------------------
(* DeletionVectors with Paimon's `sequence.field`: the user says which record is
   newer.  The field is the row itself, so of two batches the later listed is
   the newer, whichever is written first.  A model replaces operators of Bucket
   by these.  The project does not implement the option; the module says where
   it would break and where not (C15, C16 and the question B15 of README.md). *)
EXTENDS ValueLookup

\* Decides every merge.
NewerByField(r, s) == r.row > s.row \/ (r.row = s.row /\ r.seq > s.seq)

\* What merge-on-read would show if it never forgot a retraction.
FoldByField(b, count) ==
  LET all == UNION {Range(Records(b, f)) : f \in {f \in 1..count : b.files[f].born = 0}}
  IN {r \in all : IsAdd(r) /\ \A s \in all \ {r} : s.key = r.key => NewerByField(r, s)}

\* C16: the row looked up, which may be the newer one, takes no part in the merge.
NothingLookedUp(b, group, level) == {}

----------------------------------------------------------------------------
(* changelog-producer = lookup, no deletion vectors: level 0 is compacted, and
   looked up, in the same way, but nothing is marked, so a key may have records
   in several levels; retractions stay until the last level.  Paimon then takes
   the record of the shallowest level for the newest, whatever its field says.
   B15: is there a state in which it is not?                                *)
NoMarks(b, group, level) == {}
\* What B15 rests on: a lookup finds retractions too.  Here it does not.
AddsLookedUp(b, group, level) == {r \in RowsLookedUp(b, group, level) : IsAdd(r)}
KeptUntilTheLastLevel(b, key, level, marks) == \E e \in b.live : Level(e) > level

ShallowerIsNewer ==
  LET runs == Runs(Now, {e \in live : Level(e) > 0})
      In(n) == UNION {Range(Records(Now, f)) : f \in Named(runs[n])}
  IN \A m, n \in DOMAIN runs : m < n =>
       \A r \in In(m), s \in In(n) : r.key = s.key => NewerByField(r, s) \/ r = s
=============================================================================
