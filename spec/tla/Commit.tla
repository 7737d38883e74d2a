------------------------------- MODULE Commit ------------------------------
(* A table of several buckets in a store, and its commits.

   It adds to DeletionVectors: snapshots that stay until they expire, a write that
   is one snapshot of all the buckets it touches, and a commit in two phases.  In
   the data phase a job has written its files and made nothing visible.  Then it
   prepares metadata from the latest snapshot, number n, and puts snapshot n+1.
   Two jobs cannot put the same number if the store creates a file only where none
   is, or if jobs take a lock; both are switches of a model.

   The subtle case: a job that finds n+1 taken goes back to the data phase and is
   checked and numbered again, because it had prepared its metadata for n.  *)
EXTENDS Bucket

CONSTANTS BucketCount,  \* how many buckets the table has
          Batches, Writers, Compactors, WriteLimit, CompactionLimit, Crashes,  \* see DeletionVectors
          PutIfAbsent,  \* whether the store creates a file only where none is
          Lock,         \* whether jobs hold a lock from preparing to putting
          Expiry,       \* whether the oldest snapshots expire
          TagLimit      \* how many tags a model makes

VARIABLES files,      \* a function from bucket to the sequence of its files, see Bucket
          snapshots,  \* a function from the ids that are retained to their content
          tags,       \* a function from the ids that are tagged to their content
          stored,     \* a set of <<bucket, "data" or "index", number>>: the files in the store
          pending,    \* a function from job to staged work, in phase "data" or "metadata", or Idle
          lock,       \* the job that holds it, or "free"
          log         \* the sequence of writes that were committed; for the invariants

ASSUME AreBatches(Batches)
ASSUME IsFiniteSet(Writers) /\ Writers # {}
ASSUME IsFiniteSet(Compactors)
ASSUME WriteLimit \in Nat
ASSUME CompactionLimit \in Nat
ASSUME Crashes \in BOOLEAN
ASSUME BucketCount \in 1..2  \* Bucket0 and Bucket1, see below
ASSUME PutIfAbsent \in BOOLEAN
ASSUME Lock \in BOOLEAN
ASSUME Expiry \in BOOLEAN
ASSUME TagLimit \in Nat

vars == <<files, snapshots, tags, stored, pending, lock, log>>

Jobs == Writers \cup Compactors
BucketIds == 0..(BucketCount - 1)
BucketOf(key) == key % BucketCount

\* A snapshot has for each bucket: the live files, the deleted positions, the
\* snapshot that wrote the DV index file (0 if there is none), and how many files
\* and commits there were.  For the invariants it has the number of writes.
Empty == [writes |-> 0,
          parts  |-> [b \in BucketIds |-> [live |-> {}, vectors |-> {}, index |-> 0, known |-> 0, commits |-> 0]]]
LatestId == Max(DOMAIN snapshots \cup {0})
Latest == IF LatestId = 0 THEN Empty ELSE snapshots[LatestId]
At(content, b) == [files   |-> SubSeq(files[b], 1, content.parts[b].known),
                   live    |-> content.parts[b].live,
                   vectors |-> content.parts[b].vectors]

-------------------------------- (* types *) --------------------------------
Snapshot == [writes : Nat,
             parts  : [BucketIds -> [live : SUBSET Entry, vectors : SUBSET Mark, index : Nat,
                                     known : Nat, commits : Nat]]]
AreSnapshots(f) == DOMAIN f \subseteq Nat \ {0} /\ \A id \in DOMAIN f : f[id] \in Snapshot

\* Whether f is a function from some buckets to values of a type.
Partial(f, type) == DOMAIN f \subseteq BucketIds /\ \A b \in DOMAIN f : f[b] \in type

\* Staged work has the data of each bucket, and once it is prepared also the snapshot
\* that it will put.
IsData(work) ==
  /\ work.phase = "data"
  /\ \/ DOMAIN work = {"kind", "phase", "changes", "parts"} /\ work.kind = "write"
        /\ work.changes \in Seq(Change) /\ Partial(work.parts, StagedWrite)
     \/ DOMAIN work = {"kind", "phase", "parts"} /\ work.kind = "compaction"
        /\ Partial(work.parts, Compaction)
IsPrepared(work) ==
  /\ DOMAIN work = {"kind", "phase", "parts", "changes", "base", "content", "after", "then"}
  /\ work.phase = "metadata" /\ work.changes \in Seq(Change)
  /\ \/ work.kind = "write" /\ Partial(work.parts, StagedWrite)
     \/ work.kind = "compaction" /\ Partial(work.parts, Compaction)
  /\ work.base \in Nat /\ work.content \in Snapshot
  /\ Partial(work.after, BucketState) /\ DOMAIN work.after = DOMAIN work.parts
  /\ work.then = Idle \/ IsData(work.then)
IsWork(work) == work = Idle \/ IsData(work) \/ IsPrepared(work)

TypeOK == /\ files \in [BucketIds -> Seq(StoredFile)]
          /\ AreSnapshots(snapshots) /\ AreSnapshots(tags)
          /\ stored \in SUBSET (BucketIds \X {"data", "index"} \X Nat)
          /\ DOMAIN pending = Jobs /\ \A job \in Jobs : IsWork(pending[job])
          /\ lock \in Jobs \cup {"free"}
          /\ log \in Seq(Seq(Change))

----------------------------------------------------------------------------
\* The files that a read of a snapshot needs.
Needed(content) ==
  UNION {{<<b, "data", f>> : f \in Named(content.parts[b].live)}
         \cup (IF content.parts[b].index = 0 THEN {} ELSE {<<b, "index", content.parts[b].index>>})
         : b \in BucketIds}

Init == /\ files = [b \in BucketIds |-> <<>>]
        /\ snapshots = [id \in {} |-> Empty] /\ tags = [id \in {} |-> Empty]
        /\ stored = {} /\ lock = "free" /\ log = <<>>
        /\ pending = [job \in Jobs |-> Idle]

Is(job, kind, phase) == pending[job].kind = kind /\ pending[job].phase = phase
IsIdle(job) == pending[job].kind = "idle"
StagedCount(kind) == Cardinality({job \in Jobs : pending[job].kind = kind})

------------------------------ (* data phase *) -----------------------------
Stage(job, work) == /\ pending' = [pending EXCEPT ![job] = work]
                    /\ UNCHANGED <<files, snapshots, tags, stored, lock, log>>

HasPlan(job) == \/ pending[job].kind = "compaction"
                \/ /\ pending[job].kind = "write"
                   /\ \E b \in DOMAIN pending[job].parts : pending[job].parts[b].plan # Idle
MayCompact == LatestId - Len(log) + Cardinality({job \in Jobs : HasPlan(job)}) < CompactionLimit

\* Stage a write of all buckets it touches, alone or with compactions of them.
\* Clauses: CMT-2, CMP-17, TBL-14.
BeginWrite(w, changes) ==
  LET Part(b)  == SelectSeq(changes, LAMBDA change : BucketOf(change.key) = b)
      touched  == {b \in BucketIds : Part(b) # <<>>}
      First(b) == NextSequence(At(Latest, b))
      Own(b)   == {Idle} \cup IF w \in Compactors /\ MayCompact THEN OwnPlans(At(Latest, b), Part(b), First(b)) ELSE {}
  IN /\ IsIdle(w) /\ Len(log) + StagedCount("write") < WriteLimit
     /\ \E plans \in [touched -> UNION {Own(b) : b \in touched}] :
          /\ \A b \in touched : plans[b] \in Own(b)
          /\ Stage(w, [kind |-> "write", phase |-> "data", changes |-> changes,
                       parts |-> [b \in touched |-> Staged(At(Latest, b), Part(b), plans[b])]])

\* Stage the compaction of one bucket.  Clauses: CMT-2, CMP-1.
PlanCompaction(c) ==
  /\ IsIdle(c) /\ MayCompact
  /\ \E b \in BucketIds : \E plan \in Plans(At(Latest, b)) :
       Stage(c, [kind |-> "compaction", phase |-> "data", parts |-> [one \in {b} |-> plan]])

---------------------------- (* metadata phase *) ---------------------------
Conflicts(job) == \E b \in DOMAIN pending[job].parts :
                    pending[job].kind = "compaction" /\ Conflict(At(Latest, b), pending[job].parts[b]) # ""

After(b, part) == IF part.kind = "write"
                  THEN Written(At(Latest, b), part.changes, FirstSequence(At(Latest, b), part))
                  ELSE Compacted(At(Latest, b), part)

\* The compaction that is still to be committed after a write.  Clauses: CMT-33, CMT-54.
Then(work) ==
  LET Left(b) == Remaining(At(Latest, b), work.parts[b], Len(At(Latest, b).files) + 1)
      left == {b \in DOMAIN work.parts : work.kind = "write" /\ Left(b) # Idle}
  IN IF left = {} THEN Idle
     ELSE [kind |-> "compaction", phase |-> "data", parts |-> [b \in left |-> Left(b)]]

\* Prepare snapshot n+1 from the latest one, n.  Clauses: CMT-3, CMT-7, CMT-8, CMT-9, CMT-10, CMT-11.
PrepareCommit(job) ==
  /\ Is(job, "write", "data") \/ Is(job, "compaction", "data")
  /\ ~Conflicts(job)
  /\ Lock => lock = "free"
  /\ lock' = IF Lock THEN job ELSE lock
  /\ LET work == pending[job]
     IN pending' = [pending EXCEPT ![job] =
          [kind |-> work.kind, phase |-> "metadata", parts |-> work.parts,
           changes |-> IF work.kind = "write" THEN work.changes ELSE <<>>,
           base |-> LatestId, content |-> Latest,
           after |-> [b \in DOMAIN work.parts |-> After(b, work.parts[b])],
           then |-> Then(work)]]
  /\ UNCHANGED <<files, snapshots, tags, stored, log>>

\* Drop a staged compaction that conflicts.  Clauses: CMT-14.
RefuseCompaction(c) ==
  /\ Is(c, "compaction", "data") /\ Conflicts(c)
  /\ Stage(c, Idle)

\* Snapshot n+1 as it was prepared.  Clauses: CMT-5, CMT-6, CMT-23.
Content(work) ==
  LET id == work.base + 1
      Part(b) == LET old == work.content.parts[b] new == work.after[b]
                 IN [live |-> new.live, vectors |-> new.vectors,
                     index |-> IF new.vectors = old.vectors THEN old.index ELSE id,
                     known |-> Len(new.files), commits |-> old.commits + 1]
  IN [writes |-> work.content.writes + (IF work.kind = "write" THEN 1 ELSE 0),
      parts  |-> [b \in BucketIds |-> IF b \in DOMAIN work.after THEN Part(b) ELSE work.content.parts[b]]]

IsTaken(job) == pending[job].base < LatestId

\* Put snapshot n+1.  Without put-if-absent and lock it replaces any other n+1.
\* Clauses: CMT-19, CMT-20, DV-14.
Put(job) ==
  LET work == pending[job]
      id == work.base + 1
      content == Content(work)
  IN /\ (PutIfAbsent \/ Lock) => ~IsTaken(job)
     /\ snapshots' = [one \in DOMAIN snapshots \cup {id} |-> IF one = id THEN content ELSE snapshots[one]]
     /\ files' = [b \in BucketIds |-> IF b \in DOMAIN work.after THEN work.after[b].files ELSE files[b]]
     /\ stored' = stored \cup Needed(content)
     /\ log' = IF work.kind = "write" THEN Append(log, work.changes) ELSE log
     /\ lock' = IF lock = job THEN "free" ELSE lock
     /\ pending' = [pending EXCEPT ![job] = work.then]
     /\ UNCHANGED tags
CommitWrite(w) == Is(w, "write", "metadata") /\ Put(w)
CommitCompaction(c) == Is(c, "compaction", "metadata") /\ Put(c)

\* The work of a job that lost the race: its data, in the data phase again.  Clauses: CMT-3.
Retried(work) == IF work.kind = "write"
                 THEN [kind |-> "write", phase |-> "data", changes |-> work.changes, parts |-> work.parts]
                 ELSE [kind |-> "compaction", phase |-> "data", parts |-> work.parts]

\* Clauses: CMT-3.
RetryCommit(job) ==
  /\ Is(job, "write", "metadata") \/ Is(job, "compaction", "metadata")
  /\ PutIfAbsent /\ IsTaken(job)
  /\ pending' = [pending EXCEPT ![job] = Retried(@)]  \* it holds no lock: then none was faster
  /\ UNCHANGED <<files, snapshots, tags, stored, lock, log>>

\* The lock of a crashed job is free again.
LockAfterCrash(job) == IF lock = job THEN "free" ELSE lock

\* Lose staged work, in either phase.  Snapshots stay as they are.
\* Clauses: CMT-25.
Crash(job) ==
  /\ Crashes /\ ~IsIdle(job)
  /\ pending' = [pending EXCEPT ![job] = Idle]
  /\ lock' = LockAfterCrash(job)
  /\ UNCHANGED <<files, snapshots, tags, stored, log>>

--------------------------- (* expiry and tags *) ---------------------------
\* The files that tags need.
KeptByTags == UNION {Needed(tags[id]) : id \in DOMAIN tags}

\* Expire the oldest snapshot, and remove the files that only it needs.  The latest
\* one never expires.  Clauses: CMT-15, CMT-16.
Expire ==
  /\ Expiry /\ Cardinality(DOMAIN snapshots) > 1
  /\ LET oldest == Min(DOMAIN snapshots)
         left == DOMAIN snapshots \ {oldest}
         kept == KeptByTags \cup UNION {Needed(snapshots[id]) : id \in left}
     IN /\ snapshots' = [id \in left |-> snapshots[id]]
        /\ stored' = stored \ (Needed(snapshots[oldest]) \ kept)
  /\ UNCHANGED <<files, tags, pending, lock, log>>

\* Tag a snapshot.  Clauses: CMT-15.
Tag(id) ==
  /\ id \in DOMAIN snapshots
  /\ Cardinality(DOMAIN tags) < TagLimit /\ id \notin DOMAIN tags
  /\ tags' = [one \in DOMAIN tags \cup {id} |-> IF one = id THEN snapshots[id] ELSE tags[one]]
  /\ UNCHANGED <<files, snapshots, stored, pending, lock, log>>

Next ==
  \/ \E w \in Writers, n \in DOMAIN Batches : BeginWrite(w, Batches[n])
  \/ \E c \in Compactors : PlanCompaction(c)
  \/ \E job \in Jobs : PrepareCommit(job)
  \/ \E w \in Writers : CommitWrite(w)
  \/ \E c \in Compactors : CommitCompaction(c)
  \/ \E c \in Compactors : RefuseCompaction(c)
  \/ \E job \in Jobs : RetryCommit(job)
  \/ \E job \in Jobs : Crash(job)
  \/ Expire
  \/ \E id \in 1..(WriteLimit + CompactionLimit) : Tag(id)

Spec == Init /\ [][Next]_vars
FairSpec == /\ Spec
            /\ \A w \in Writers : WF_vars(CommitWrite(w))
            /\ \A c \in Compactors : WF_vars(CommitCompaction(c)) /\ WF_vars(RefuseCompaction(c))
            /\ \A job \in Jobs : SF_vars(PrepareCommit(job)) /\ WF_vars(RetryCommit(job))

----------------------------------------------------------------------------
Readable == {snapshots[id] : id \in DOMAIN snapshots} \cup {tags[id] : id \in DOMAIN tags}

\* Snapshots are numbered without a gap, and the latest has all committed writes.  Clauses: CMT-1.
SnapshotsAreDense ==
  /\ DOMAIN snapshots = {} \/ DOMAIN snapshots = Min(DOMAIN snapshots)..LatestId
  /\ Latest.writes = Len(log)

\* Every file that a read may need exists.  Clauses: CMT-15, DV-4.
NeededFilesExist == \A content \in Readable : Needed(content) \subseteq stored

\* Every retained snapshot and tag is the fold of the writes up to it.  Each write is
\* in all its buckets or in none.  Clauses: TBL-7, RD-3, CMT-20, CMT-15.
RowsOf(content) == AsTable(UNION {FreshRead(At(content, b)) : b \in BucketIds})
T == INSTANCE Table WITH snapshot <- 0, rows <- 0, absorbed <- 0, waiting <- <<>>
LogOf(content) == [n \in 1..content.writes |-> AsWrite(Flush(log[n], 0))]
EverySnapshotIsTheFold == \A content \in Readable : RowsOf(content) = T!ApplyAll(T!Nothing, LogOf(content))

\* The invariants of a bucket, in every retained snapshot and tag; Bucket cites the
\* clauses.
Everywhere(Holds(_)) == \A content \in Readable : \A b \in BucketIds : Holds(At(content, b))
EveryPlainReadIsTheAbsorbedFold == Everywhere(PlainIsAbsorbedFold)
KeysAreLiveOnce == Everywhere(KeysLiveOnce)
VectorsNameLiveFiles == Everywhere(MarksNameLive)

\* Clauses: CMT-15.
SnapshotsNeverChange ==
  [][\A b \in BucketIds :
       /\ \A id \in DOMAIN snapshots \cap DOMAIN snapshots' : At(snapshots[id], b)' = At(snapshots[id], b)
       /\ \A id \in DOMAIN tags : At(tags[id], b)' = At(tags[id], b)]_vars

\* Staged work ends: it is committed, refused or lost.  Clauses: CMT-3, CMT-14.
EveryCommitEnds == \A job \in Jobs : ~IsIdle(job) ~> IsIdle(job)

\* Each bucket is a behaviour of DeletionVectors.  Preparing, retrying, expiry and
\* tags change nothing there.
PartOf(job, b) == IF IsIdle(job) \/ b \notin DOMAIN pending[job].parts THEN Idle ELSE pending[job].parts[b]
BatchesOf(b) == SelectSeq([n \in DOMAIN Batches |-> SelectSeq(Batches[n], LAMBDA change : BucketOf(change.key) = b)],
                          LAMBDA batch : batch # <<>>)
Staging(b) == [job \in Jobs |-> PartOf(job, b)]
Bucket0 == INSTANCE DeletionVectors WITH
  files <- files[0], live <- Latest.parts[0].live, vectors <- Latest.parts[0].vectors,
  snapshot <- Latest.parts[0].commits, pending <- Staging(0),
  Batches <- BatchesOf(0), WriteLimit <- 99, CompactionLimit <- 99
Bucket1 == INSTANCE DeletionVectors WITH
  files <- files[1], live <- Latest.parts[1].live, vectors <- Latest.parts[1].vectors,
  snapshot <- Latest.parts[1].commits, pending <- Staging(1),
  Batches <- BatchesOf(1), WriteLimit <- 99, CompactionLimit <- 99
RefinesBucket0 == Bucket0!Spec
RefinesBucket1 == Bucket1!Spec
=============================================================================
