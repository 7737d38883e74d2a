---------------------------- MODULE UserSequence ---------------------------
(* DeletionVectors with Paimon's `sequence.field`: the user orders the records of a
   key.  The field is the row itself, so the later of two batches in the list is the
   newer, whichever is written first.  A model replaces operators of Bucket by these.
   The project does not implement the option; the module shows where it would break
   and where not (C15, C16 and the question B15 of README.md).              *)
EXTENDS ValueLookup

\* The order of a merge.
NewerByField(r, s) == r.row > s.row \/ (r.row = s.row /\ r.seq > s.seq)

\* The rows of a merge-on-read that keeps all retractions.
FoldByField(b, count) ==
  LET all == UNION {Range(Records(b, f)) : f \in {f \in 1..count : b.files[f].born = 0}}
  IN {r \in all : IsAdd(r) /\ \A s \in all \ {r} : s.key = r.key => NewerByField(r, s)}

\* C16: the record that is looked up may be the newer one, and is not merged.
NothingLookedUp(b, group, level) == {}

----------------------------------------------------------------------------
(* changelog-producer = lookup, without deletion vectors.  Level 0 is compacted, and
   keys are looked up, in the same way, but no position is deleted.  So a key may have
   records in several levels, and retractions stay until the last level.  Paimon then
   takes the record of the shallowest level for the newest, whatever its field is.
   B15: is there a state in which it is not the newest?                     *)
NoMarks(b, group, level) == {}
\* A lookup finds retractions too, and B15 depends on that.  Here it does not.
AddsLookedUp(b, group, level) == {r \in RowsLookedUp(b, group, level) : IsAdd(r)}
KeptUntilTheLastLevel(b, key, level, marks) == \E e \in b.live : Level(e) > level

ShallowerIsNewer ==
  LET runs == Runs(Now, {e \in live : Level(e) > 0})
      In(n) == UNION {Range(Records(Now, f)) : f \in Named(runs[n])}
  IN \A m, n \in DOMAIN runs : m < n =>
       \A r \in In(m), s \in In(n) : r.key = s.key => NewerByField(r, s) \/ r = s
=============================================================================
