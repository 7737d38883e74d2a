-------------------------- MODULE DeletionVectors --------------------------
(* A bucket of files with deletion vectors, as a transition system.

   It adds to Levels: data files that never change, deleted positions instead of
   rewrites, upgrades that move a file without reading it, and compactions
   planned on one state and committed on a later one.  A state is the latest
   snapshot and the staged work.  The variables, the actions and the bounds are
   those of the Python model (mechanism.py, graph.py), and the two reachable
   graphs are compared: all states and labelled edges.                      *)
EXTENDS Bucket

CONSTANTS Batches,          \* the writes that may be made, each a sequence of changes
          Writers,          \* jobs; if there are none, a write is one step, else two
          Compactors,       \* jobs; one that is a writer too may stage a write with its compaction
          WriteLimit,       \* how many writes a model makes
          CompactionLimit,  \* how many compactions a model makes
          Crashes           \* whether staged work may be lost

VARIABLES files,     \* a sequence of [records, born]: every file ever committed
          live,      \* a set of <<file, level>>: the files of the latest snapshot
          vectors,   \* a set of <<file, position>>: the deleted positions of the latest snapshot
          snapshot,  \* a number: how many commits of this bucket there were
          pending    \* a function from job to staged work, Idle where there is none

ASSUME AreBatches(Batches)
ASSUME IsFiniteSet(Writers)
ASSUME IsFiniteSet(Compactors)
ASSUME WriteLimit \in Nat
ASSUME CompactionLimit \in Nat
ASSUME Crashes \in BOOLEAN

vars == <<files, live, vectors, snapshot, pending>>

Jobs == Writers \cup Compactors
Now == [files |-> files, live |-> live, vectors |-> vectors]
Later == [files |-> files', live |-> live', vectors |-> vectors']
Is(job, kind) == pending[job].kind = kind

TypeOK == Now \in BucketState /\ snapshot \in Nat /\ pending \in [Jobs -> Work]

Become(b) == files' = b.files /\ live' = b.live /\ vectors' = b.vectors
Commit(b) == Become(b) /\ snapshot' = snapshot + 1
Stay == UNCHANGED <<files, live, vectors, snapshot>>
Stage(job, work) == pending' = [pending EXCEPT ![job] = work] /\ Stay
Drop(job) == pending' = [pending EXCEPT ![job] = Idle]

Init == /\ files = <<>> /\ live = {} /\ vectors = {} /\ snapshot = 0
        /\ pending = [job \in Jobs |-> Idle]

WriteCount == Cardinality({f \in DOMAIN files : files[f].born = 0})
StagedCount(kind) == Cardinality({job \in Jobs : Is(job, kind)})
MayWrite == WriteCount + StagedCount("write") < WriteLimit
HasPlan(job) == Is(job, "compaction") \/ (Is(job, "write") /\ pending[job].plan # Idle)
MayCompact == snapshot - WriteCount + Cardinality({job \in Jobs : HasPlan(job)}) < CompactionLimit

\* Commit changes as one new level-0 file.  Clauses: CMT-2, CMP-17, LSM-8.
Write(changes) ==
  /\ Writers = {} /\ MayWrite
  /\ Commit(Written(Now, changes, NextSequence(Now)))
  /\ UNCHANGED pending

\* Stage a write, numbered for the state on which it begins, alone or with the
\* compaction of the file that it will add.  Clauses: CMT-2, CMP-17.
BeginWrite(w, changes) ==
  /\ Is(w, "idle") /\ MayWrite
  /\ LET first == NextSequence(Now)
         own   == IF w \in Compactors /\ MayCompact THEN OwnPlans(Now, changes, first) ELSE {}
     IN \E plan \in {Idle} \cup own : Stage(w, Staged(Now, changes, plan))

\* Commit a staged write.  The compaction staged with it is then like any other.  If
\* other files are live now than it was planned on, it is dropped: to re-plan it is to
\* begin now.  Clauses: CMT-10, CMT-18, CMT-24, CMT-33, CMT-54.
CommitWrite(w) ==
  /\ Is(w, "write")
  /\ LET staged == pending[w]
         first  == FirstSequence(Now, staged)
     IN /\ Commit(Written(Now, staged.changes, first))
        /\ pending' = [pending EXCEPT ![w] = Remaining(Now, staged, Len(files) + 1)]

\* Stage a compaction.  Clauses: CMT-2, CMP-1.
PlanCompaction(c) ==
  /\ Is(c, "idle") /\ MayCompact
  /\ \E plan \in Plans(Now) : Stage(c, plan)

\* Clauses: CMT-7, CMT-8, CMT-9, CMT-11, CMT-14, DV-14.
CommitCompaction(c) ==
  /\ Is(c, "compaction") /\ Conflict(Now, pending[c]) = ""
  /\ Commit(Compacted(Now, pending[c]))
  /\ Drop(c)

\* Drop a staged compaction that conflicts.  It is re-planned, not retried.
\* Clauses: CMT-14.
RefuseCompaction(c) ==
  /\ Is(c, "compaction") /\ Conflict(Now, pending[c]) # ""
  /\ Drop(c) /\ Stay

\* The bucket after a crash: everything as it was.  Clauses: CMT-25.
AfterCrash(b, work) == b

\* Lose staged work.  Clauses: CMT-25.
Crash(job) ==
  /\ Crashes /\ ~Is(job, "idle")
  /\ Become(AfterCrash(Now, pending[job])) /\ UNCHANGED snapshot
  /\ Drop(job)

Next ==
  \/ \E n \in DOMAIN Batches : Write(Batches[n])
  \/ \E w \in Writers, n \in DOMAIN Batches : BeginWrite(w, Batches[n])
  \/ \E w \in Writers : CommitWrite(w)
  \/ \E c \in Compactors : PlanCompaction(c)
  \/ \E c \in Compactors : CommitCompaction(c)
  \/ \E c \in Compactors : RefuseCompaction(c)
  \/ \E job \in Jobs : Crash(job)

Spec == Init /\ [][Next]_vars

\* Fair compaction: no compactor is idle for ever while it could plan, and of
\* infinitely many attempts that could commit, some do.
Rests(c) == Is(c, "idle") /\ Plans(Now) # {}
FairSpec == Spec /\ \A c \in Compactors : /\ []<>~Rests(c)
                                          /\ WF_vars(RefuseCompaction(c))
                                          /\ SF_vars(CommitCompaction(c))

----------------------------------------------------------------------------
\* Invariants of every state, that is of every snapshot; Bucket cites the clauses.
RecordsAscend == KeysAscendInFiles(Now)
LevelsAreRuns == LevelsHoldRuns(Now)
VectorsAreInRange == MarksInRange(Now)
LevelZeroIsUnmarked == ZeroUnmarked(Now)
VectorsNameLiveFiles == MarksNameLive(Now)
KeysAreLiveOnce == KeysLiveOnce(Now)
NewerRunsHoldNewerRecords == NewerRunsNewer(Now)
FreshReadIsTheFold == FreshIsFold(Now)
PlainReadIsTheAbsorbedFold == PlainIsAbsorbedFold(Now)
BeforeImageIsVisible == BeforeIsVisible(Now)
FullCompactionLeavesNoVector == FullLeavesNoMark(Now)
RetractionsAreDroppedInTime == RetractionsHigh(Now)

\* Properties of every step.
\* A file that stays live loses no deleted position.  Clauses: DV-11.
VectorsOnlyGrow == [][{mark \in vectors : mark[1] \in Named(live')} \subseteq vectors']_vars
\* A fresh read stays the same, unless a write commits.  Clauses: CMP-14.
CompactionChangesNoRead == [][WriteCount' = WriteCount => Seen(FreshRead(Later)) = Seen(FreshRead(Now))]_vars
\* Files are added, never altered.  Clauses: CMT-15, CMP-10.
FilesNeverChange == [][SubSeq(files', 1, Len(files)) = files]_vars
\* A reader sees a change only with a new snapshot, and ids ascend by one.  Clauses: CMT-20, CMT-25, DV-14.
VisibleChangesAreCommits ==
  [][IF snapshot' = snapshot THEN UNCHANGED <<files, live, vectors>> ELSE snapshot' = snapshot + 1]_vars
\* No file returns to level 0.  Clauses: RD-2.
AbsorbedWritesStayAbsorbed ==
  [][\A e \in live' : Level(e) > 0 \/ e \in live \/ File(e) > Len(files)]_vars

\* Every committed write is absorbed in the end.  Clauses: RD-2, CMP-3.
AbsorbedWrites == Cardinality({f \in 1..AbsorbedCount(Now) : files[f].born = 0})
EveryWriteBecomesVisible == \A n \in 1..WriteLimit : WriteCount >= n ~> AbsorbedWrites >= n
=============================================================================
