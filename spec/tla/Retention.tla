------------------------------ MODULE Retention -----------------------------
(* Which files an expiry deletes, one operation on the store at a time.

   Commits add files, expiries end snapshots.  Tags, branches, copies of changelogs and
   consumers keep some of what they need.  Nothing is locked: each of these is a file
   that someone puts or removes between any two operations of others.

   An expiry notes the files that its snapshots name, puts its fence, puts the copies
   of changelogs and removes the snapshots.  Then it lists all that is left, in the order
   in which one thing is made of another: snapshots, tags, copies, branches.  Of the files
   that it noted it deletes those that nothing needs.  To drop a tag is the same.

   The subtle case: who puts a file to keep something may be too late, since others have
   looked before.  So makers look after their put.  The maker of a tag looks for its
   snapshot.  That is no help to a consumer: an expiry that looked at consumers before its
   put may put its fence after its look.  So it puts a fence of its own before it looks,
   and the expiry decides again.  An expiry that removes copies says so in a fence for
   the same reason, and because a copy that is put too late must count for nobody.

   Commits are one step here, fences never go: see StoreOperations and FenceNumbers. *)
EXTENDS Naturals, Sequences, FiniteSets

CONSTANTS Expirers, Tags, Branches, Consumers,  \* the sets of the processes that make and remove these
          CommitLimit,  \* how many snapshots there are
          CopiesKept,   \* changelogs of how many snapshots are kept; 0: no copies are made
          CrashLimit    \* how many processes die

VARIABLES latest,     \* the id of the latest snapshot
          snaps,      \* the set of the ids of the snapshot files
          expired,    \* the greatest id that has expired by the newest fence
          closed,     \* the greatest id whose changelog is kept no more by the newest fence
          fences,     \* how many fences there are
          tags,       \* a function from tag to the id of the snapshot it is a copy of, 0 if there is none
          branches,   \* the same of branches
          copies,     \* the set of the ids of the copies of changelogs
          consumers,  \* a function from consumer to the snapshot it reads next, 0 if there is none
          data,       \* the set of data files; commit n adds file n
          jobs,       \* a function from process to what it does
          crashes     \* how many processes died

ASSUME IsFiniteSet(Expirers) /\ IsFiniteSet(Tags) /\ IsFiniteSet(Branches) /\ IsFiniteSet(Consumers)
ASSUME CommitLimit \in Nat
ASSUME CopiesKept \in Nat
ASSUME CrashLimit \in Nat

vars == <<latest, snaps, expired, closed, fences, tags, branches, copies, consumers, data, jobs, crashes>>
Processes == Expirers \cup Tags \cup Branches \cup Consumers
Ids == 1..CommitLimit

\* A file is live for two snapshots, so the second one needs the file of the first.  A snapshot names the
\* files that it needs, and the one that it has removed.  Its changes are the file that it added.
Needs(id) == {id - 1, id} \cap Ids
Names(id) == {id - 2, id - 1, id} \cap Ids
Changes(id) == {id}
All(Files(_), ids) == UNION {Files(id) : id \in ids}

\* A job has: its step.  The snapshot it is about.  How many fences it knows.  The files that it noted, and those that
\* it has found needed.  The ids that it still has to copy.  The greatest id whose copy it removes.
Idle == [step |-> "idle", id |-> 0, seen |-> 0, noted |-> {}, needed |-> {}, left |-> {}, closed |-> 0]
Program == <<"fenced", "copying", "removing", "dropping", "snapshots", "tags", "ended", "copies", "branches", "deleting">>
Steps == {"idle", "planned", "putting", "read", "put", "looking", "made", "done"} \cup {Program[n] : n \in DOMAIN Program}
Job == [step : Steps, id : Nat, seen : Nat, noted : SUBSET Ids, needed : SUBSET Ids, left : SUBSET Ids, closed : Nat]

TypeOK == /\ {latest, expired, closed, fences, crashes} \subseteq Nat
          /\ {snaps, copies, data} \subseteq SUBSET Ids
          /\ tags \in [Tags -> Nat] /\ branches \in [Branches -> Nat] /\ consumers \in [Consumers -> Nat]
          /\ jobs \in [Processes -> Job]

Init == /\ latest = 1 /\ snaps = {1} /\ expired = 0 /\ closed = 0 /\ fences = 0 /\ data = {1} /\ copies = {} /\ crashes = 0
        /\ tags = [t \in Tags |-> 0] /\ branches = [b \in Branches |-> 0] /\ consumers = [c \in Consumers |-> 0]
        /\ jobs = [p \in Processes |-> Idle]

Max(ids) == CHOOSE one \in ids : \A other \in ids : one >= other
Min(ids) == CHOOSE one \in ids : \A other \in ids : one <= other

\* Clauses: CMT-36.
Retained == {id \in snaps : id > expired}
\* A snapshot file that has expired counts as the copy of its changelog.  Clauses: CHG-23.
Ended == IF CopiesKept = 0 THEN {} ELSE {id \in snaps : id <= expired /\ id > closed}
\* Clauses: CMT-61.
Counts(id) == id > closed
Kept == {id \in copies : Counts(id)}
Readable == Retained \cup Ended \cup Kept

Set(p, job) == jobs' = [jobs EXCEPT ![p] = job]
Is(p, step) == jobs[p].step = step
Follows(step) == Program[1 + CHOOSE n \in DOMAIN Program : Program[n] = step]
Next_(p) == Set(p, [jobs[p] EXCEPT !.step = Follows(@)])
Finds(p, files) == Set(p, [jobs[p] EXCEPT !.step = Follows(@), !.needed = @ \cup files])

Commit == /\ latest < CommitLimit
          /\ latest' = latest + 1 /\ snaps' = snaps \cup {latest + 1} /\ data' = data \cup {latest + 1}
          /\ UNCHANGED <<expired, closed, fences, tags, branches, copies, consumers, jobs, crashes>>

-------------------------------- (* expiry *) -------------------------------
\* The snapshots that consumers have read: those before the first one that a consumer reads next.  Clauses: CMT-59.
AreRead == LET next == {consumers[c] : c \in Consumers} \ {0} IN {id \in Ids : \A n \in next : id < n}

\* Read the fences, the consumers and the snapshots.  Choose the oldest if it is not the latest, and the copies
\* of which there are too many.  Take what an expiry has left.  Clauses: CMT-16, CMT-26, CMT-40, CHG-22.
KnownBefore == {}
Plan(e) ==
  LET old == {expired + 1} \cap AreRead \cap 1..(latest - 1)
      gone == {id \in (Kept \cup Ended \cup old) \cap AreRead : CopiesKept > 0 /\ latest - id >= CopiesKept}
      left == {id \in snaps : id <= expired}
      late == copies \ Kept
  IN /\ Is(e, "idle") /\ (old \cup gone \cup left \cup late) # {}
     /\ Set(e, [Idle EXCEPT !.step = IF (old \cup gone) # {} THEN "planned" ELSE Program[1],
                            !.id = Max(old \cup {expired}), !.closed = Max(gone \cup {closed}), !.seen = fences, !.needed = KnownBefore,
                            !.noted = All(Names, old \cup left) \cup All(Changes, gone \cup late)])
     /\ UNCHANGED <<latest, snaps, expired, closed, fences, tags, branches, copies, consumers, data, crashes>>

\* Put the next fence, or plan again because it is taken.  Clauses: CMT-35, CMT-44, CMT-61.
IsNextFence(e) == jobs[e].seen = fences
AfterConflict(e) == Idle
Fence(e) ==
  /\ Is(e, "planned")
  /\ IF IsNextFence(e)
     THEN /\ expired' = jobs[e].id /\ closed' = jobs[e].closed /\ fences' = fences + 1
          /\ Set(e, [jobs[e] EXCEPT !.step = Program[1]])
     ELSE Set(e, AfterConflict(e)) /\ UNCHANGED <<expired, closed, fences>>
  /\ UNCHANGED <<latest, snaps, tags, branches, copies, consumers, data, crashes>>

\* Find the snapshots to copy; see that the file of one is there; put its copy.  Clauses: CHG-17, CHG-23.
ListEnded(e) == /\ Is(e, "fenced") /\ Set(e, [jobs[e] EXCEPT !.step = Follows(@), !.left = Ended])
                /\ UNCHANGED <<latest, snaps, expired, closed, fences, tags, branches, copies, consumers, data, crashes>>
SeeFile(e) ==
  LET job == jobs[e] id == Min(job.left)
  IN /\ Is(e, "copying")
     /\ IF job.left = {} THEN Next_(e)
        ELSE Set(e, IF id \in snaps THEN [job EXCEPT !.step = "putting"] ELSE [job EXCEPT !.left = @ \ {id}])
     /\ UNCHANGED <<latest, snaps, expired, closed, fences, tags, branches, copies, consumers, data, crashes>>
PutCopy(e) ==
  LET id == Min(jobs[e].left)
  IN /\ Is(e, "putting") /\ copies' = copies \cup {id}
     /\ Set(e, [jobs[e] EXCEPT !.step = "copying", !.left = @ \ {id}])
     /\ UNCHANGED <<latest, snaps, expired, closed, fences, tags, branches, consumers, data, crashes>>

\* Remove the files of the snapshots that have expired, the oldest first.
RemoveSnapshot(e) ==
  LET old == {id \in snaps : id <= jobs[e].id}
  IN /\ Is(e, "removing")
     /\ IF old = {} THEN Next_(e) /\ UNCHANGED snaps ELSE snaps' = snaps \ {Min(old)} /\ UNCHANGED jobs
     /\ UNCHANGED <<latest, expired, closed, fences, tags, branches, copies, consumers, data, crashes>>
RemoveCopies(e) == /\ Is(e, "dropping") /\ copies' = {id \in copies : id > jobs[e].closed} /\ Next_(e)
                   /\ UNCHANGED <<latest, snaps, expired, closed, fences, tags, branches, consumers, data, crashes>>

\* List what is left, and delete what nothing needs.  Clauses: CMT-26, CMT-27, CMT-31, CMT-34, CHG-17.
List(p) ==
  /\ \/ Is(p, "snapshots") /\ Finds(p, All(Needs, Retained))
     \/ Is(p, "tags") /\ Finds(p, All(Needs, {tags[t] : t \in Tags} \ {0}))
     \/ Is(p, "ended") /\ Finds(p, All(Changes, Ended))
     \/ Is(p, "copies") /\ Finds(p, All(Changes, Kept))
     \/ Is(p, "branches") /\ Finds(p, All(Needs, {branches[b] : b \in Branches} \ {0}))
  /\ UNCHANGED <<latest, snaps, expired, closed, fences, tags, branches, copies, consumers, data, crashes>>
Delete(p) == /\ Is(p, "deleting") /\ data' = data \ (jobs[p].noted \ jobs[p].needed)
             /\ Set(p, IF p \in Expirers THEN Idle ELSE [Idle EXCEPT !.step = "done"])
             /\ UNCHANGED <<latest, snaps, expired, closed, fences, tags, branches, copies, consumers, crashes>>

-------------------------------- (* makers *) -------------------------------
Unchanged == UNCHANGED <<latest, snaps, expired, closed, copies, data, crashes>>
Made(p) == [jobs[p] EXCEPT !.step = "made"]

\* Read a snapshot, put the tag, look for the snapshot; then keep the tag or remove it.  Clauses: CMT-17, CMT-32.
ReadForTag(t) == /\ Is(t, "idle") /\ \E id \in Retained : Set(t, [Idle EXCEPT !.step = "read", !.id = id])
                 /\ Unchanged /\ UNCHANGED <<fences, tags, branches, consumers>>
PutTag(t) == /\ Is(t, "read") /\ tags' = [tags EXCEPT ![t] = jobs[t].id] /\ Set(t, [jobs[t] EXCEPT !.step = "put"])
             /\ Unchanged /\ UNCHANGED <<fences, branches, consumers>>
IsThere(id) == id \in Retained
NamedBy(id) == Names(id)
Remove(t) == /\ tags' = [tags EXCEPT ![t] = 0]
             /\ Set(t, [jobs[t] EXCEPT !.step = "snapshots", !.noted = NamedBy(jobs[t].id)])
LookForTag(t) == /\ Is(t, "put")
                 /\ IF IsThere(jobs[t].id) THEN Set(t, Made(t)) /\ UNCHANGED tags ELSE Remove(t)
                 /\ Unchanged /\ UNCHANGED <<fences, branches, consumers>>
DropTag(t) == Is(t, "made") /\ Remove(t) /\ Unchanged /\ UNCHANGED <<fences, branches, consumers>>

\* Copy a tag to a branch.  The branch is made if the tag is there after it.  Clauses: CMT-34.
TagsOf(id) == {t \in Tags : tags[t] = id /\ Is(t, "made")}
ReadForBranch(b) == /\ Is(b, "idle") /\ \E id \in Ids : TagsOf(id) # {} /\ Set(b, [Idle EXCEPT !.step = "read", !.id = id])
                    /\ Unchanged /\ UNCHANGED <<fences, tags, branches, consumers>>
PutBranch(b) == /\ Is(b, "read") /\ branches' = [branches EXCEPT ![b] = jobs[b].id]
                /\ Set(b, [jobs[b] EXCEPT !.step = "put"])
                /\ Unchanged /\ UNCHANGED <<fences, tags, consumers>>
LookForBranch(b) == /\ Is(b, "put")
                    /\ Set(b, IF TagsOf(jobs[b].id) # {} THEN Made(b) ELSE [Idle EXCEPT !.step = "done"])
                    /\ Unchanged /\ UNCHANGED <<fences, tags, branches, consumers>>

\* Choose a snapshot, put the consumer, put a fence that ends nothing, look for the changes.  Clauses: CMT-62.
ReadForConsumer(c) == /\ Is(c, "idle") /\ \E id \in Readable : Set(c, [Idle EXCEPT !.step = "read", !.id = id])
                      /\ Unchanged /\ UNCHANGED <<fences, tags, branches, consumers>>
PutConsumer(c) == /\ Is(c, "read") /\ consumers' = [consumers EXCEPT ![c] = jobs[c].id]
                  /\ Set(c, [jobs[c] EXCEPT !.step = "put"])
                  /\ Unchanged /\ UNCHANGED <<fences, tags, branches>>
More == fences + 1
FenceConsumer(c) == /\ Is(c, "put") /\ fences' = More /\ Set(c, [jobs[c] EXCEPT !.step = "looking"])
                    /\ Unchanged /\ UNCHANGED <<tags, branches, consumers>>
RemoveConsumer(c) == consumers' = [consumers EXCEPT ![c] = 0] /\ Set(c, [Idle EXCEPT !.step = "done"])
IsReadable(id) == id \in Readable
LookForConsumer(c) == /\ Is(c, "looking")
                      /\ IF IsReadable(jobs[c].id) THEN Set(c, Made(c)) /\ UNCHANGED consumers ELSE RemoveConsumer(c)
                      /\ Unchanged /\ UNCHANGED <<fences, tags, branches>>
ReadOn(c) == /\ Is(c, "made") /\ jobs[c].id <= latest
             /\ consumers' = [consumers EXCEPT ![c] = @ + 1] /\ Set(c, [jobs[c] EXCEPT !.id = @ + 1])
             /\ Unchanged /\ UNCHANGED <<fences, tags, branches>>
DropConsumer(c) == Is(c, "made") /\ RemoveConsumer(c) /\ Unchanged /\ UNCHANGED <<fences, tags, branches>>

IsAtWork(p) == jobs[p].step \notin {"idle", "made", "done"}
Crash(p) == /\ crashes < CrashLimit /\ IsAtWork(p) /\ crashes' = crashes + 1
            /\ Set(p, IF p \in Expirers THEN Idle ELSE [Idle EXCEPT !.step = "done"])
            /\ UNCHANGED <<latest, snaps, expired, closed, fences, tags, branches, copies, consumers, data>>

OfExpirer(e) == Fence(e) \/ ListEnded(e) \/ SeeFile(e) \/ PutCopy(e) \/ RemoveSnapshot(e) \/ RemoveCopies(e)
OfMaker(p) == \/ p \in Tags /\ (PutTag(p) \/ LookForTag(p))
              \/ p \in Branches /\ (PutBranch(p) \/ LookForBranch(p))
              \/ p \in Consumers /\ (PutConsumer(p) \/ FenceConsumer(p) \/ LookForConsumer(p))
GoesOn(p) == (p \in Expirers /\ OfExpirer(p)) \/ OfMaker(p) \/ List(p) \/ Delete(p)
Next == \/ Commit
        \/ \E p \in Processes : GoesOn(p) \/ Crash(p)
        \/ \E e \in Expirers : Plan(e)
        \/ \E t \in Tags : ReadForTag(t) \/ DropTag(t)
        \/ \E b \in Branches : ReadForBranch(b)
        \/ \E c \in Consumers : ReadForConsumer(c) \/ ReadOn(c) \/ DropConsumer(c)
RetentionSpec == Init /\ [][Next]_vars
FairRetention == RetentionSpec /\ \A p \in Processes : WF_vars(GoesOn(p))

-----------------------------------------------------------------------------
\* Clauses: CMT-15, CMT-27.
SnapshotsAreWhole == All(Needs, Retained) \subseteq data

\* A tag reads the rows of its snapshot, once its maker has reported it.  Clauses: CMT-17.
TagsAreWhole == \A t \in Tags : Is(t, "made") => Needs(tags[t]) \subseteq data

\* Clauses: CMT-34.
BranchesAreWhole == \A b \in Branches : Is(b, "made") => Needs(branches[b]) \subseteq data

\* Clauses: CHG-17.
CopiesAreWhole == All(Changes, Kept \cup Ended) \subseteq data

\* Clauses: CHG-23.
ChangelogsAreKept == CopiesKept > 0 => (closed + 1)..expired \subseteq Ended \cup Kept

\* A consumer that is made finds the changes that come next.  Clauses: CMT-59.
ConsumersReadOn == \A c \in Consumers :
  Is(c, "made") /\ jobs[c].id <= latest => jobs[c].id \in Readable

\* When nobody is at work, each file is named, unless someone died.  Clauses: CMT-28, CMT-30.
Named == All(Needs, Retained \cup (({tags[t] : t \in Tags} \cup {branches[b] : b \in Branches}) \ {0})) \cup All(Changes, Kept)
NothingLeaks == crashes = 0 /\ (\A p \in Processes : ~IsAtWork(p)) => data \subseteq Named

\* A process ends what it begins.  Clauses: CMT-29.
EveryJobEnds == \A p \in Processes : IsAtWork(p) ~> ~IsAtWork(p)
=============================================================================
