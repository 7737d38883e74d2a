----------------------------- MODULE FastForward ----------------------------
(* A fast-forward of the main branch to another branch, one operation on the store at a time.

   Others commit on both branches, expire snapshots of the branch, remove it, make it
   again, and remove orphans.  Nothing is locked.

   A fast-forward copies the snapshots that the branch has made to the main branch, the
   oldest first.  It first puts a consumer in the branch, so that no expiry removes one
   of them.  Then it looks whether the branch is there.

   The subtle case: whoever removes the branch and then removes orphans takes the files
   of snapshots that are still to be copied.  So the removal puts a consumer, too, before
   it looks for those of fast-forwards.  One of both sees the other, and gives up.  And
   whoever removes orphans reads the main branch once more after the other one, as a
   fast-forward may have copied to it what the branch had.

   A put whose answer is lost may come at any time.  Then the consumer stays.

   The maker of another branch from this one does the same with a tag.

   Commits are one step here, and put no fences: see StoreOperations and Retention. *)
EXTENDS Naturals, Sequences, FiniteSets

CONSTANTS Forwards, Removers, Expirers, Cleaners,  \* the sets of the processes that do these
          CommitLimit,      \* how many snapshots a branch has
          GenerationLimit,  \* how often the branch is made
          CrashLimit        \* how many processes die

VARIABLES main,       \* the set of the snapshots of the main branch
          branch,     \* the set of the snapshot files of the branch
          generation, \* how often the branch was made
          there,      \* whether its schema is there
          consumers,  \* the set of the processes whose consumers are in the branch
          fences,     \* how many fences it has
          data,       \* the set of data files
          jobs,       \* a function from process to what it does
          crashes     \* how many processes died

ASSUME IsFiniteSet(Forwards) /\ IsFiniteSet(Removers) /\ IsFiniteSet(Expirers) /\ IsFiniteSet(Cleaners)
ASSUME CommitLimit \in Nat
ASSUME GenerationLimit \in Nat
ASSUME CrashLimit \in Nat

vars == <<main, branch, generation, there, consumers, fences, data, jobs, crashes>>
Processes == Forwards \cup Removers \cup Expirers \cup Cleaners

\* A snapshot has its id, the branch that made it, and the one that made the snapshot before it.  Branches are numbers:
\* 0 is the main one.  A commit replaces the one data file, which has the name of its snapshot.
Snapshot == [id : Nat, by : Nat, after : Nat]
First == [id |-> 1, by |-> 0, after |-> 0]
File(s) == <<s.id, s.by>>
Files(snapshots) == {File(s) : s \in snapshots}
Latest(snapshots) == CHOOSE s \in snapshots : \A other \in snapshots : s.id >= other.id
IsOldest(s, snapshots) == \A other \in snapshots : s.id <= other.id
Following(s, by) == [id |-> s.id + 1, by |-> by, after |-> s.by]

\* A job has: its step.  How many fences it knows.  The files that it noted, and those that it has found needed.  The
\* snapshots that it has found, and those that it still has to put.  What it has yet to look at.
Idle == [step |-> "idle", seen |-> 0, noted |-> {}, needed |-> {}, found |-> {}, left |-> {}, looks |-> <<>>]
Steps == {"idle", "opened", "put", "fenced", "not removed", "schema seen", "kept", "going", "late", "marked", "alone", "schema gone",
          "empty", "removed", "making", "planned", "looking", "done"}
Job == [step : Steps, seen : Nat, noted : SUBSET (Nat \X Nat), needed : SUBSET (Nat \X Nat),
        found : SUBSET Snapshot, left : SUBSET Snapshot, looks : Seq({"main", "branch"})]

TypeOK == /\ main \in SUBSET Snapshot /\ branch \in SUBSET Snapshot
          /\ there \in BOOLEAN
          /\ consumers \in SUBSET (Forwards \cup Removers)
          /\ {generation, fences, crashes} \subseteq Nat
          /\ data \in SUBSET (Nat \X Nat)
          /\ jobs \in [Processes -> Job]

Init == /\ main = {First} /\ branch = {First} /\ generation = 1 /\ there = TRUE /\ consumers = {} /\ fences = 0
        /\ data = {File(First)} /\ jobs = [p \in Processes |-> Idle] /\ crashes = 0

Is(p, step) == jobs[p].step = step
Set(p, job) == jobs' = [jobs EXCEPT ![p] = job]
Goes(p, step) == Set(p, [jobs[p] EXCEPT !.step = step])

OnMain == /\ Latest(main).id < CommitLimit
          /\ main' = main \cup {Following(Latest(main), 0)} /\ data' = data \cup {File(Following(Latest(main), 0))}
          /\ UNCHANGED <<branch, generation, there, consumers, fences, jobs, crashes>>
OnBranch == /\ there /\ branch # {} /\ Latest(branch).id < CommitLimit
            /\ branch' = branch \cup {Following(Latest(branch), generation)}
            /\ data' = data \cup {File(Following(Latest(branch), generation))}
            /\ UNCHANGED <<main, generation, there, consumers, fences, jobs, crashes>>

----------------------------- (* fast-forward *) ----------------------------
\* Put the consumer, then a fence that ends nothing.  Clauses: BRN-10, CMT-62.
Open(f) == Is(f, "idle") /\ there /\ Goes(f, "opened")
           /\ UNCHANGED <<main, branch, generation, there, consumers, fences, data, crashes>>
PutConsumer(f) == Is(f, "opened") /\ consumers' = consumers \cup {f} /\ Goes(f, "put")
                  /\ UNCHANGED <<main, branch, generation, there, fences, data, crashes>>
More == fences + 1
Fence(f) == Is(f, "put") /\ fences' = More /\ Goes(f, "fenced")
            /\ UNCHANGED <<main, branch, generation, there, consumers, data, crashes>>

Ends(f) == consumers' = consumers \ {f} /\ Goes(f, "done")
AfterRefusal(f) == Ends(f)
GivesUpUnless(f, seen, step) ==
  /\ IF seen THEN Goes(f, step) /\ UNCHANGED consumers ELSE AfterRefusal(f)
  /\ UNCHANGED <<main, branch, generation, there, fences, data, crashes>>
\* Look for consumers of removals, then for the schema, then for the own consumer.  Clauses: BRN-13.
NobodyRemoves == consumers \cap Removers = {}
IsThere == there
IsKept(f) == f \in consumers
LookForRemovals(f) == Is(f, "fenced") /\ GivesUpUnless(f, NobodyRemoves, "not removed")
LookForSchema(f) == Is(f, "not removed") /\ GivesUpUnless(f, IsThere, "schema seen")
LookForItself(f) == Is(f, "schema seen") /\ GivesUpUnless(f, IsKept(f), "kept")

\* Read the snapshots of the branch.  Go on if the main branch ends with one of them.  Clauses: BRN-11.
Agrees == Latest(main) \in branch
Read(f) ==
  /\ Is(f, "kept")
  /\ IF branch # {} /\ Agrees
     THEN /\ Set(f, [jobs[f] EXCEPT !.step = "going", !.found = branch,
                                    !.left = {s \in branch : s.id > Latest(main).id}])
          /\ UNCHANGED consumers
     ELSE Ends(f)
  /\ UNCHANGED <<main, branch, generation, there, fences, data, crashes>>

\* A put comes if no snapshot of the id is there.  If another fast-forward has put the same snapshot, this one goes on.
\* Clauses: BRN-10, CMT-19.
Comes(s) == s.id = Latest(main).id + 1
IsPut(s) == s \in main
With(s) == main \cup {s}
PutOne(f) ==
  /\ Is(f, "going")
  /\ \E s \in jobs[f].left :
       /\ IsOldest(s, jobs[f].left)
       /\ main' = IF Comes(s) THEN With(s) ELSE main
       /\ IF Comes(s) \/ IsPut(s)
          THEN Set(f, [jobs[f] EXCEPT !.left = @ \ {s}]) /\ UNCHANGED consumers
          ELSE Set(f, [jobs[f] EXCEPT !.found = {}, !.step = "done"]) /\ consumers' = consumers \ {f}
  /\ UNCHANGED <<branch, generation, there, fences, data, crashes>>
End(f) == Is(f, "going") /\ jobs[f].left = {} /\ Ends(f)
          /\ UNCHANGED <<main, branch, generation, there, fences, data, crashes>>

\* The answer to a put is lost.  The put may come.
KeptAfter(f) == consumers
LoseAnswer(f) == /\ crashes < CrashLimit /\ Is(f, "going") /\ jobs[f].left # {} /\ crashes' = crashes + 1
                 /\ consumers' = KeptAfter(f) /\ Goes(f, "late")
                 /\ UNCHANGED <<main, branch, generation, there, fences, data>>
ComeLate(f) == /\ Is(f, "late")
               /\ \E s \in jobs[f].left : IsOldest(s, jobs[f].left) /\ Comes(s) /\ main' = main \cup {s}
               /\ Set(f, [jobs[f] EXCEPT !.found = {}, !.step = "done"])
               /\ UNCHANGED <<branch, generation, there, consumers, fences, data, crashes>>

------------------------------- (* removal *) -------------------------------
\* Put the consumer, then look for those of fast-forwards.  Then remove the schema, and at last the snapshots.  Then the
\* branch may be made again: what is left is removed, and the schema is put last.  Clauses: BRN-4, BRN-9, BRN-13.
Mark(r) == Is(r, "idle") /\ there /\ consumers' = consumers \cup {r} /\ Goes(r, "marked")
           /\ UNCHANGED <<main, branch, generation, there, fences, data, crashes>>
NobodyForwards == consumers \cap Forwards = {}
LookForForwards(r) == Is(r, "marked") /\ GivesUpUnless(r, NobodyForwards, "alone")
RemoveSchema(r) == Is(r, "alone") /\ there' = FALSE /\ Goes(r, "schema gone")
                   /\ UNCHANGED <<main, branch, generation, consumers, fences, data, crashes>>
RemoveConsumers(r) == Is(r, "schema gone") /\ consumers' = {} /\ Goes(r, "empty")
                      /\ UNCHANGED <<main, branch, generation, there, fences, data, crashes>>
RemoveSnapshots(r) == Is(r, "empty") /\ branch' = {} /\ Goes(r, "removed")
                      /\ UNCHANGED <<main, generation, there, consumers, fences, data, crashes>>
Empty(r) == /\ Is(r, "removed") /\ generation < GenerationLimit
            /\ consumers' = {} /\ branch' = {Latest(main)} /\ fences' = 0 /\ Goes(r, "making")
            /\ UNCHANGED <<main, generation, there, data, crashes>>
Make(r) == Is(r, "making") /\ there' = TRUE /\ generation' = generation + 1 /\ Goes(r, "done")
           /\ UNCHANGED <<main, branch, consumers, fences, data, crashes>>

------------------- (* expiry of the branch, and orphans *) -----------------
\* Clauses: CMT-59.
NobodyReads == consumers = {}
Plan(e) == /\ Is(e, "idle") /\ there /\ Cardinality(branch) > 1 /\ NobodyReads
           /\ Set(e, [Idle EXCEPT !.step = "planned", !.seen = fences, !.found = branch \ {Latest(branch)},
                                  !.noted = Files(branch \ {Latest(branch)}), !.looks = <<"branch", "main">>])
           /\ UNCHANGED <<main, branch, generation, there, consumers, fences, data, crashes>>
\* Put the next fence and remove the snapshots, which have expired with it; give up if it is taken.
\* Clauses: CMT-35, CMT-44.
Expire(e) ==
  /\ Is(e, "planned")
  /\ IF there /\ jobs[e].seen = fences
     THEN fences' = fences + 1 /\ branch' = branch \ jobs[e].found /\ Goes(e, "looking")
     ELSE Goes(e, "done") /\ UNCHANGED <<branch, fences>>
  /\ UNCHANGED <<main, generation, there, consumers, data, crashes>>

\* Note all files, and read the main branch, the other one, and the main one once more.  Clauses: BRN-8, CMT-49.
Looks == <<"main", "branch", "main">>
Note(c) == /\ Is(c, "idle") /\ Set(c, [Idle EXCEPT !.step = "looking", !.noted = data, !.looks = Looks])
           /\ UNCHANGED <<main, branch, generation, there, consumers, fences, data, crashes>>

\* A branch that is half there needs nothing.  Clauses: BRN-4, BRN-7.
Look(p) ==
  LET needed == IF Head(jobs[p].looks) = "main" THEN Files(main) ELSE IF there THEN Files(branch) ELSE {}
  IN /\ Is(p, "looking") /\ jobs[p].looks # <<>>
     /\ Set(p, [jobs[p] EXCEPT !.looks = Tail(@), !.needed = @ \cup needed])
     /\ UNCHANGED <<main, branch, generation, there, consumers, fences, data, crashes>>
Delete(p) == /\ Is(p, "looking") /\ jobs[p].looks = <<>> /\ data' = data \ (jobs[p].noted \ jobs[p].needed)
             /\ Goes(p, "done")
             /\ UNCHANGED <<main, branch, generation, there, consumers, fences, crashes>>

IsAtWork(p) == jobs[p].step \notin {"idle", "removed", "done"}
OfForward(f) == \/ PutConsumer(f) \/ Fence(f) \/ LookForRemovals(f) \/ LookForSchema(f) \/ LookForItself(f)
                \/ Read(f) \/ PutOne(f) \/ End(f)
OfRemover(r) == LookForForwards(r) \/ RemoveSchema(r) \/ RemoveConsumers(r) \/ RemoveSnapshots(r) \/ Make(r)
GoesOn(p) == \/ p \in Forwards /\ OfForward(p)
             \/ p \in Removers /\ OfRemover(p)
             \/ p \in Expirers /\ Expire(p)
             \/ Look(p) \/ Delete(p)
Next == \/ OnMain \/ OnBranch
        \/ \E p \in Processes : GoesOn(p)
        \/ \E f \in Forwards : Open(f) \/ LoseAnswer(f) \/ ComeLate(f)
        \/ \E r \in Removers : Mark(r) \/ Empty(r)
        \/ \E e \in Expirers : Plan(e)
        \/ \E c \in Cleaners : Note(c)
ForwardSpec == Init /\ [][Next]_vars
FairForward == ForwardSpec /\ \A p \in Processes : WF_vars(GoesOn(p))

-----------------------------------------------------------------------------
\* Clauses: BRN-7.
MainIsWhole == Files(main) \subseteq data
BranchIsWhole == there => Files(branch) \subseteq data

\* The main branch is a line of snapshots, each made from the one before it.  Clauses: BRN-11, CMT-3.
MainIsALine == \A s, t \in main : /\ s.id = t.id => s = t
                                  /\ t.id = s.id + 1 => t.after = s.by

\* A fast-forward removes nothing, and brings what it has found.  Clauses: BRN-10.
MainOnlyGrows == [][main \subseteq main']_main
ForwardsBring == \A f \in Forwards : Is(f, "done") => jobs[f].found \subseteq main

\* A process ends what it begins.
EveryJobEnds == \A p \in Processes : IsAtWork(p) ~> ~IsAtWork(p)
=============================================================================
