-------------------------- MODULE DeletionVectors --------------------------
(* A bucket of files with deletion vectors, as a transition system.

   Adds to Levels: files that never change, marks on positions instead of
   rewrites, upgrades that move a file without touching it, and compactions
   that are planned on one state and committed on a later one.  A state is
   the latest snapshot and the staged work; the variables, the actions and the
   bounds are those of the Python model (mechanism.py, graph.py), and the two
   reachable graphs are compared, states and labelled edges.               *)
EXTENDS Bucket

CONSTANTS Batches,          \* the writes that may be made, each a sequence of changes
          Writers,          \* none: a write is one step; else BeginWrite, CommitWrite
          Compactors,       \* who is a writer too may plan both at once
          WriteLimit, CompactionLimit,  \* of the model
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

\* Stage a write, numbered from the state it is begun on, alone or with the
\* compaction of what it will add.  Clauses: CMT-2, CMP-17.
BeginWrite(w, changes) ==
  /\ Is(w, "idle") /\ MayWrite
  /\ LET first == NextSequence(Now)
         own   == IF w \in Compactors /\ MayCompact THEN OwnPlans(Now, changes, first) ELSE {}
     IN \E plan \in {Idle} \cup own :
          Stage(w, [kind |-> "write", changes |-> changes, first |-> first, plan |-> plan])

\* Then it is a compaction as any.  A write that is numbered anew drops what it
\* planned: to plan anew is to begin now.  Clauses: CMT-10, CMT-18, CMT-24, CMT-33.
CommitWrite(w) ==
  /\ Is(w, "write")
  /\ LET staged == pending[w]
         first  == FirstSequence(Now, staged)
     IN /\ Commit(Written(Now, staged.changes, first))
        /\ pending' = [pending EXCEPT ![w] = Remaining(staged, first, Len(files) + 1)]

\* Clauses: CMT-2, CMP-1.
PlanCompaction(c) ==
  /\ Is(c, "idle") /\ MayCompact
  /\ \E plan \in Plans(Now) : Stage(c, plan)

\* Clauses: CMT-7, CMT-8, CMT-9, CMT-11, CMT-14, DV-14.
CommitCompaction(c) ==
  /\ Is(c, "compaction") /\ Conflict(Now, pending[c]) = ""
  /\ Commit(Compacted(Now, pending[c]))
  /\ Drop(c)

\* What met a conflict is dropped; a compaction is planned anew, not retried.
\* Clauses: CMT-14.
RefuseCompaction(c) ==
  /\ Is(c, "compaction") /\ Conflict(Now, pending[c]) # ""
  /\ Drop(c) /\ Stay

\* What a crash leaves: everything as it was.  Clauses: CMT-25.
AfterCrash(b, work) == b

\* Clauses: CMT-25.
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

\* Fair compaction: no compactor rests for ever while there is something to
\* plan, and of infinitely many attempts that could commit, some do.
Rests(c) == Is(c, "idle") /\ Plans(Now) # {}
FairSpec == Spec /\ \A c \in Compactors : /\ []<>~Rests(c)
                                          /\ WF_vars(RefuseCompaction(c))
                                          /\ SF_vars(CommitCompaction(c))

----------------------------------------------------------------------------
\* What holds in every state, that is in every snapshot; ids in Bucket.
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

\* What holds of every step.
\* A file that stays live loses no mark.  Clauses: DV-11.
VectorsOnlyGrow == [][{mark \in vectors : mark[1] \in Named(live')} \subseteq vectors']_vars
\* Unless a write committed, a fresh read stays as it was.  Clauses: CMP-14.
CompactionChangesNoRead == [][WriteCount' = WriteCount => Seen(FreshRead(Later)) = Seen(FreshRead(Now))]_vars
\* Files are added, never altered.  Clauses: CMT-15, CMP-10.
FilesNeverChange == [][SubSeq(files', 1, Len(files)) = files]_vars
\* What a reader sees changes with the snapshot, by one.  Clauses: CMT-20, CMT-25, DV-14.
VisibleChangesAreCommits ==
  [][IF snapshot' = snapshot THEN UNCHANGED <<files, live, vectors>> ELSE snapshot' = snapshot + 1]_vars
\* No file returns to level 0.  Clauses: RD-2.
AbsorbedWritesStayAbsorbed ==
  [][\A e \in live' : Level(e) > 0 \/ e \in live \/ File(e) > Len(files)]_vars

\* The n-th write, once committed, is at last seen by plain reads.  Clauses: RD-2, CMP-3.
AbsorbedWrites == Cardinality({f \in 1..AbsorbedCount(Now) : files[f].born = 0})
EveryWriteBecomesVisible == \A n \in 1..WriteLimit : WriteCount >= n ~> AbsorbedWrites >= n
=============================================================================
