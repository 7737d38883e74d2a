------------------------------- MODULE Ties --------------------------------
(* DeletionVectors with writers that do not renumber: equal sequence numbers.

   Two writers that begin on one snapshot assign the same numbers, and Paimon's commit
   both as they are.  All of such writes lie in level 0 until none is staged any more:
   a number that is taken after a compaction of its level would break LSM-6, and no
   order of ties could mend that.  A model replaces operators of Bucket by these.  *)
EXTENDS DeletionVectors

\* A write keeps the number with which it began.
NotRenumbered(b, staged) == staged.first

\* Numbers do not begin again when compactions have dropped the greatest ones: FoldByNumber
\* compares records that are no longer live.
AboveAllFiles(b) == Max({-1} \cup UNION {Sequences(b, f) : f \in DOMAIN b.files}) + 1

\* A compaction is planned while no write is staged.
PicksBetweenWrites(b) == IF StagedCount("write") > 0 THEN {} ELSE AllowedPicks(b) \cup FullPicks(b)

\* The rows of the writes among the first `count` files, said without runs and merges:
\* a record of which none of its key is newer.  Newer has the greater number; of equal
\* numbers an add is newer than a retraction; of two such the one in the newer file.
\* Clauses: MRG-1, MRG-2, MRG-4, MRG-6, LSM-4.
FoldByNumber(b, count) ==
  LET writes == {f \in 1..count : b.files[f].born = 0}
      all == UNION {{<<f, r>> : r \in Range(Records(b, f))} : f \in writes}
      First(f) == Min(Sequences(b, f))
      Last(f) == Max(Sequences(b, f))
      NewerFile(f, g) == \/ Last(f) > Last(g)
                         \/ Last(f) = Last(g) /\ First(f) > First(g)
                         \/ Last(f) = Last(g) /\ First(f) = First(g) /\ f < g
      Hides(c, d) == \/ c[2].seq > d[2].seq
                     \/ c[2].seq = d[2].seq /\ IsAdd(c[2]) /\ ~IsAdd(d[2])
                     \/ c[2].seq = d[2].seq /\ IsAdd(c[2]) = IsAdd(d[2]) /\ NewerFile(c[1], d[1])
  IN {d[2] : d \in {d \in all : IsAdd(d[2]) /\ ~\E c \in all : c[2].key = d[2].key /\ Hides(c, d)}}

------------------------------- (* done wrong *) -----------------------------
\* A retraction hides an add of the same number.
RetractionsHideAdds(r, s) == r.seq > s.seq \/ (r.seq = s.seq /\ ~IsAdd(r) /\ IsAdd(s))

\* Of two files with the same numbers the later one is the newer run.
LaterFileIsNewer(b, e, g) ==
  LET s == Sequences(b, File(e))
      t == Sequences(b, File(g))
  IN \/ Max(s) > Max(t)
     \/ (Max(s) = Max(t) /\ Min(s) > Min(t))
     \/ (Max(s) = Max(t) /\ Min(s) = Min(t) /\ File(e) > File(g))

\* The smallest number of a file says nothing.
SmallestNumberIgnored(b, e, g) ==
  LET s == Sequences(b, File(e))
      t == Sequences(b, File(g))
  IN Max(s) > Max(t) \/ (Max(s) = Max(t) /\ File(e) < File(g))
=============================================================================
