------------------------------ MODULE Levels -------------------------------
(* A bucket as levels of sorted runs, newest first.  There are no files and no
   deletion vectors here.

   A write adds a run of level 0.  A compaction merges adjacent runs into one of a
   deeper level.  The subtle case: it may also remove records from the runs below
   whose keys it merges.  Module DeletionVectors does that by deleting positions. *)
EXTENDS Records

CONSTANTS Batches,     \* the writes that may be made, each a sequence of changes
          MaxLevel,    \* the deepest level
          CommitLimit  \* how many snapshots a model makes

VARIABLES runs,        \* a sequence of [level, records], newest first; records a set
          snapshot     \* a number: how many commits there were

ASSUME AreBatches(Batches)
ASSUME MaxLevel \in Nat \ {0}
ASSUME CommitLimit \in Nat

vars == <<runs, snapshot>>

Init == runs = <<>> /\ snapshot = 0

RecordsOf(rs) == UNION {rs[n].records : n \in DOMAIN rs}
Sets(from, to) == [n \in 1..(to - from + 1) |-> runs[from + n - 1].records]
NonEmpty(rs) == SelectSeq(rs, LAMBDA run : run.records # {})
ZeroCount == Cardinality({n \in DOMAIN runs : runs[n].level = 0})

\* Clauses: LSM-5, LSM-10.
NextSequence == Max({-1} \cup {r.seq : r \in RecordsOf(runs)}) + 1

\* Add a run of level 0, newer than all others.  Clauses: LSM-4, LSM-8, CMT-2.
Write(records) ==
  /\ runs' = <<[level |-> 0, records |-> records]>> \o runs
  /\ snapshot' = snapshot + 1

\* The runs after a compaction: runs i to j become one run of `level` that holds the
\* records `merged`, and the runs below lose the records `gone`.  Clauses: CMP-12, LSM-2.
Compacted(i, j, level, merged, gone) ==
  LET Left(n) == [runs[j + n] EXCEPT !.records = @ \ gone]
  IN NonEmpty(SubSeq(runs, 1, i - 1)
              \o <<[level |-> level, records |-> merged]>>
              \o [n \in 1..(Len(runs) - j) |-> Left(n)])

\* Which records the runs below may lose.  Each of them takes part in the merge.  It
\* may go if it changes nothing there, or if all newer records of its key that are
\* below go as well.  Clauses: DV-6, LSM-6.
MayGo(gone, merged, below) ==
  \A r \in gone :
    \/ \A s \in merged : s.key = r.key => Folded(<<r, s>>) = s
    \/ \A s \in below : s.key = r.key /\ s.seq > r.seq => s \in gone

\* Every result of compacting runs i to j.  A retraction may be dropped only if no
\* older record of its key stays.
\* Clauses: CMP-13, DV-6, LSM-6.
Compactions(i, j, level) ==
  LET below  == RecordsOf(SubSeq(runs, j + 1, Len(runs)))
      merged == Merge(Sets(i, j))
      older  == {r \in below : r.key \in KeysOf(merged)}
      Droppable(with, left) == {r \in with : ~IsAdd(r) /\ r.key \notin KeysOf(left)}
      Results(with, gone) == {Compacted(i, j, level, with \ dropped, gone)
                              : dropped \in SUBSET Droppable(with, below \ gone)}
  IN UNION {Results(Merge(<<merged, gone>>), gone) : gone \in {gone \in SUBSET older : MayGo(gone, merged, below)}}

\* Which levels the merged run may go to: no run of level 0 is left below it.
\* Clauses: CMP-1, CMP-2, CMP-18, LSM-3.
Fits(level, j) == /\ level >= Greater(1, runs[j].level)
                  /\ j < Len(runs) => level < runs[j + 1].level

\* Clauses: CMP-14.
Compact(i, j, level) ==
  /\ i <= j /\ Fits(level, j)
  /\ runs' \in Compactions(i, j, level)
  /\ snapshot' = snapshot + 1
SomeCompact == \E i, j \in DOMAIN runs : \E level \in 1..MaxLevel : Compact(i, j, level)

\* A compaction that rewrites files without their deleted positions.  The runs stay
\* the same.  Clauses: DV-10, DV-13, DV-17.
Purge == runs' = runs /\ snapshot' = snapshot + 1

\* Any write that is numbered above all records, for the modules that refine this
\* one.
\* Clauses: LSM-10, CMT-10.
AnyWrite == /\ Len(runs') = Len(runs) + 1 /\ Write(runs'[1].records)
            /\ \A r \in runs'[1].records : r.seq >= NextSequence

Next == AnyWrite \/ SomeCompact \/ Purge
Spec == Init /\ [][Next]_vars

\* The same with the writes of a model, up to its limit.
BatchWrite(n) == snapshot < CommitLimit /\ Write(Flush(Batches[n], NextSequence))
RunCompaction == snapshot < CommitLimit /\ SomeCompact
ModelNext == (\E n \in DOMAIN Batches : BatchWrite(n)) \/ RunCompaction
ModelSpec == Init /\ [][ModelNext]_vars

----------------------------------------------------------------------------
\* Of two records of a key, the one in the newer run is newer.  Clauses: LSM-4, LSM-6.
NewerRunsHoldNewerRecords ==
  \A m, n \in DOMAIN runs : m < n =>
    \A r \in runs[m].records, s \in runs[n].records : r.key = s.key => r.seq > s.seq

\* Each level above 0 has at most one run, and levels ascend.  Clauses: LSM-2.
LevelsAscend ==
  \A m, n \in DOMAIN runs : m < n =>
    runs[m].level < runs[n].level \/ runs[m].level = 0

\* Clauses: RD-2, RD-3, RD-4, RD-15.
Meaning == INSTANCE Table WITH
  rows     <- AsTable(Merge(Sets(1, Len(runs)))),
  absorbed <- AsTable(Merge(Sets(ZeroCount + 1, Len(runs)))),
  waiting  <- [n \in 1..ZeroCount |-> AsWrite(runs[ZeroCount + 1 - n].records)]

\* The types of the variables, and of those of Table as functions of them.
TypeOK == /\ runs \in Seq([level : 0..MaxLevel, records : SUBSET Record])
          /\ snapshot \in Nat
          /\ Meaning!TypeOK

RefinesTable == Meaning!Spec
ReadsAgree == Meaning!ReadsAgree
=============================================================================
