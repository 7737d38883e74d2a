------------------------------ MODULE LogIndex -----------------------------
(* Writers of a Hudi table that need no lock, and one key that all of them write.

   A writer chooses an instant and claims it.  It lists the claims of others and
   ends each: it puts the decision that the write is rolled back, and then looks
   whether it was decided, or even complete, before.  Then it looks up in which file
   group the key is.  It chooses its completion time and puts the decision that it is
   complete.  Then comes its completed file, and then the decision is deleted.

   A planner plans a compaction in the same way.  The log files of the writes that it
   sees are compacted; those completed later are in the slice that begins with it.

   The subtle case: a decision is deleted after the completed file is there.  Who is
   late puts the opposite decision, and must find the completed file.  *)
EXTENDS Naturals, FiniteSets

CONSTANTS Writers, Planners,  \* sets of processes
          TimeLimit,          \* how many instants and completion times there are
          CrashLimit          \* how many processes die

VARIABLES now,        \* the number of times that are given
          claimed,    \* the set of instants that are claimed and not complete
          decisions,  \* a function from instant to its decision
          completed,  \* the set of instants that are complete
          rolledBack, \* the set of instants whose files were deleted
          ended,      \* a function from instant to its completion time, 0 without
          seen,       \* a function from instant to the complete instants at its lookup
          group,      \* a function from instant to the file group of its row, 0 without
          work        \* a function from process to its work

ASSUME IsFiniteSet(Writers)
ASSUME IsFiniteSet(Planners)
ASSUME TimeLimit \in Nat
ASSUME CrashLimit \in Nat

vars == <<now, claimed, decisions, completed, rolledBack, ended, seen, group, work>>

Processes == Writers \cup Planners
Times == 1..TimeLimit
Idle == [phase |-> "idle", id |-> 0, others |-> {}, other |-> 0, time |-> 0]

-------------------------------- (* types *) --------------------------------
Phases == {"idle", "chosen", "claimed", "ending", "deciding", "placed", "timed", "decided", "finished",
           "done", "dead"}
TypeOK == /\ now \in 0..TimeLimit
          /\ claimed \in SUBSET Times
          /\ decisions \in [Times -> {"none", "complete", "rolled back"}]
          /\ completed \in SUBSET Times
          /\ rolledBack \in SUBSET Times
          /\ ended \in [Times -> 0..TimeLimit]
          /\ seen \in [Times -> SUBSET Times]
          /\ group \in [Times -> 0..TimeLimit]
          /\ work \in [Processes -> [phase : Phases, id : 0..TimeLimit, others : SUBSET Times,
                                     other : 0..TimeLimit, time : 0..TimeLimit]]

------------------------------- (* beginning *) -----------------------------
Does(p, phase) == work[p].phase = phase
To(p, phase) == work' = [work EXCEPT ![p].phase = phase]
Quit(p) == work' = [work EXCEPT ![p] = Idle]

Choose(p) == /\ Does(p, "idle") /\ now < TimeLimit
             /\ now' = now + 1
             /\ work' = [work EXCEPT ![p] = [Idle EXCEPT !.phase = "chosen", !.id = now + 1]]
             /\ UNCHANGED <<claimed, decisions, completed, rolledBack, ended, seen, group>>

\* Clauses: LOG-49.
Claim(p) == /\ Does(p, "chosen")
            /\ claimed' = claimed \cup {work[p].id}
            /\ To(p, "claimed")
            /\ UNCHANGED <<now, decisions, completed, rolledBack, ended, seen, group>>

\* The writes to be ended.  Clauses: LOG-51.
ToEnd(p) == claimed \ {work[p].id}

List(p) == /\ Does(p, "claimed")
           /\ work' = [work EXCEPT ![p].phase = "ending", ![p].others = ToEnd(p)]
           /\ UNCHANGED <<now, claimed, decisions, completed, rolledBack, ended, seen, group>>

PutRolledBack(p) ==
  /\ Does(p, "ending")
  /\ \E other \in work[p].others :
       /\ decisions' = IF decisions[other] = "none" THEN [decisions EXCEPT ![other] = "rolled back"]
                        ELSE decisions
       /\ work' = [work EXCEPT ![p].phase = "deciding", ![p].other = other]
  /\ UNCHANGED <<now, claimed, completed, rolledBack, ended, seen, group>>

\* Whether a write was complete before its decision was found.
WasComplete(other) == other \in completed

\* Whether the decision on a write is that it is complete.  Clauses: LOG-50, LOG-52.
IsDecided(other) == decisions[other] = "complete"

\* Do what is decided.  Clauses: LOG-52, LOG-53.
EndOther(p) ==
  LET other == work[p].other
      complete == ~WasComplete(other) /\ IsDecided(other)
      back == ~WasComplete(other) /\ ~IsDecided(other)
  IN /\ Does(p, "deciding")
     /\ completed' = IF complete THEN completed \cup {other} ELSE completed
     /\ rolledBack' = IF back THEN rolledBack \cup {other} ELSE rolledBack
     /\ claimed' = claimed \ {other}
     /\ decisions' = IF back THEN decisions ELSE [decisions EXCEPT ![other] = "none"]
     /\ work' = [work EXCEPT ![p].phase = "ending", ![p].others = @ \ {other}, ![p].other = 0]
     /\ UNCHANGED <<now, ended, seen, group>>

-------------------------------- (* placing *) ------------------------------
\* Whether a write is complete that is not earlier.  Clauses: LOG-49.
IsOutrun(id) == \E one \in completed : one > id \/ ended[one] > id

Withdraw(p) == /\ Does(p, "ending") /\ work[p].others = {} /\ IsOutrun(work[p].id)
               /\ claimed' = claimed \ {work[p].id}
               /\ Quit(p)
               /\ UNCHANGED <<now, decisions, completed, rolledBack, ended, seen, group>>

\* The file group in which the key is found, or a new one.  Clauses: LOG-54.
GroupOf(id, known) == LET groups == {group[one] : one \in known} \ {0}
                      IN IF groups = {} THEN id ELSE CHOOSE one \in groups : TRUE

Place(p) ==
  LET id == work[p].id
  IN /\ Does(p, "ending") /\ work[p].others = {} /\ ~IsOutrun(id)
     /\ seen' = [seen EXCEPT ![id] = completed]
     /\ group' = IF p \in Planners THEN group ELSE [group EXCEPT ![id] = GroupOf(id, completed)]
     /\ To(p, "placed")
     /\ UNCHANGED <<now, claimed, decisions, completed, rolledBack, ended>>

------------------------------- (* completing *) ----------------------------
ChooseTime(p) == /\ Does(p, "placed") /\ now < TimeLimit
                 /\ now' = now + 1
                 /\ work' = [work EXCEPT ![p].phase = "timed", ![p].time = now + 1]
                 /\ UNCHANGED <<claimed, decisions, completed, rolledBack, ended, seen, group>>

\* Whether no other process has decided.  Clauses: LOG-50.
MayDecide(id) == decisions[id] = "none"

Decide(p) ==
  LET id == work[p].id
  IN /\ Does(p, "timed")
     /\ IF MayDecide(id)
        THEN /\ decisions' = [decisions EXCEPT ![id] = "complete"]
             \* A plan takes effect at its instant.
             /\ ended' = [ended EXCEPT ![id] = IF p \in Planners THEN id ELSE work[p].time]
             /\ To(p, "decided")
        ELSE UNCHANGED <<decisions, ended>> /\ Quit(p)
     /\ UNCHANGED <<now, claimed, completed, rolledBack, seen, group>>

Finish(p) == /\ Does(p, "decided")
             /\ completed' = completed \cup {work[p].id}
             /\ claimed' = claimed \ {work[p].id}
             /\ To(p, "finished")
             /\ UNCHANGED <<now, decisions, rolledBack, ended, seen, group>>

Forget(p) == /\ Does(p, "finished")
             /\ decisions' = [decisions EXCEPT ![work[p].id] = "none"]
             /\ work' = [work EXCEPT ![p] = [Idle EXCEPT !.phase = "done"]]
             /\ UNCHANGED <<now, claimed, completed, rolledBack, ended, seen, group>>

Crash(p) == /\ work[p].phase \notin {"idle", "done", "dead"}
            /\ Cardinality({one \in Processes : Does(one, "dead")}) < CrashLimit
            /\ work' = [work EXCEPT ![p] = [Idle EXCEPT !.phase = "dead"]]
            /\ UNCHANGED <<now, claimed, decisions, completed, rolledBack, ended, seen, group>>

Init == /\ now = 0 /\ claimed = {} /\ completed = {} /\ rolledBack = {}
        /\ decisions = [time \in Times |-> "none"]
        /\ ended = [time \in Times |-> 0]
        /\ seen = [time \in Times |-> {}]
        /\ group = [time \in Times |-> 0]
        /\ work = [p \in Processes |-> Idle]

Next == \E p \in Processes :
          \/ Choose(p) \/ Claim(p) \/ List(p) \/ PutRolledBack(p) \/ EndOther(p) \/ Withdraw(p) \/ Place(p)
          \/ ChooseTime(p) \/ Decide(p) \/ Finish(p) \/ Forget(p) \/ Crash(p)

LogSpec == Init /\ [][Next]_vars

------------------------------ (* invariants *) -----------------------------
Plans == {one \in completed : group[one] = 0}
Writes == completed \ Plans

\* Clauses: LOG-54.
KeyIsInOneGroup == \A one, other \in Writes : group[one] = group[other]

\* The files of a complete write are there.  Clauses: LOG-50.
CompleteIsNotRolledBack == completed \cap rolledBack = {}

\* The order of instants is that in which writes see each other.  Clauses: LOG-49.
SeenIsEarlier == \A one \in completed : \A other \in seen[one] : ended[other] < one

\* Of two complete writes the later one has seen the earlier one.  Clauses: LOG-51.
EarlierIsSeen == \A one, other \in completed : other < one => other \in seen[one]

\* A compaction takes the log files of all writes that are completed before its plan.  Clauses: LOG-60.
PlansAreWhole == \A plan \in Plans : \A one \in Writes : ended[one] < plan => one \in seen[plan]
=============================================================================
