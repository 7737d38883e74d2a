------------------------------- MODULE Traces ------------------------------
(* Is the trace of a table a behaviour of DeletionVectors?

   A trace is a sequence of events.  An event has an action, a job, and all that can
   be seen of the bucket after it.  It must be a step that leads to exactly that.
   Some choices cannot be seen and are free: the compaction planned of those that
   are allowed, the files that were large, the cuts of an output.  So several behaviours
   may explain a trace, and one is enough: TLC explores all of them and prints how
   far each trace is explained.  model_tests/tlc/traces.py writes the traces as a
   module TraceData that replaces the example here.

   An event is [action, job, snapshot, live, vectors, created, rows, count], and a
   plan has four more fields:
     created  the records of each file that is new to the trace, oldest first
     rows     the rows of a default read, pairs <<key, row>>
     count    how many rows it returned
     ends     of a plan: the action that will end it, "" if none does
     outputs, upgraded, gone   of a plan that will be committed: the records of the
              files it creates, the files it moves, and the files it removes *)
EXTENDS DeletionVectors, TraceData, TLC

VARIABLES trace,  \* a number: which trace
          at      \* a number: its next event
all == <<vars, trace, at>>

Actions == {"Write", "BeginWrite", "CommitWrite", "PlanCompaction", "CommitCompaction", "RefuseCompaction", "Crash"}
ASSUME \A one \in DOMAIN Traces : \A n \in DOMAIN Traces[one] : Traces[one][n].action \in Actions

TraceTypeOK == TypeOK /\ trace \in DOMAIN Traces /\ at \in 1..(Len(Traces[trace]) + 1)

Event == Traces[trace][at]

TraceInit == Init /\ trace \in DOMAIN Traces /\ at = 1 /\ TLCSet(trace, 0)

\* The next event is of this kind.
Sees(action) == at <= Len(Traces[trace]) /\ Event.action = action

\* A new level-0 file: in key order, each number once and above those of all live
\* files.  Clauses: LSM-1, LSM-5, LSM-10, CMT-10.
Found(records) ==
  /\ \A i, j \in DOMAIN records : i < j => records[i].key < records[j].key /\ records[i].seq # records[j].seq
  /\ \A r \in Range(records) : r.seq >= NextSequence(Now)
  /\ Commit([Now EXCEPT !.files = Append(@, [records |-> records, born |-> 0]),
                        !.live = @ \cup {<<Len(files) + 1, 0>>}])

SeenWrite == /\ Sees("Write") /\ Len(Event.created) = 1 /\ Found(Event.created[1]) /\ UNCHANGED pending
SeenBeginWrite(w) ==
  /\ Sees("BeginWrite") /\ Event.job = w /\ Is(w, "idle")
  /\ Stage(w, [kind |-> "write", changes |-> <<>>, first |-> 0, plan |-> Idle, on |-> {}])
SeenCommitWrite(w) ==
  /\ Sees("CommitWrite") /\ Event.job = w /\ Is(w, "write")
  /\ Len(Event.created) = 1 /\ Found(Event.created[1]) /\ Drop(w)
\* A plan that will be committed must fit its files, so others need not be tried.
SeenPlan(c) ==
  /\ Sees("PlanCompaction") /\ Event.job = c /\ Is(c, "idle")
  /\ LET possible == Plans(Now)
         AsSeen(plan) == /\ plan.outputs = Event.outputs
                         /\ plan.upgraded = Event.upgraded
                         /\ Named(plan.inputs) = Event.upgraded \cup Event.gone
     IN \E plan \in CASE Event.ends = "CommitCompaction" -> {plan \in possible : AsSeen(plan)}
                      [] Event.ends = "RefuseCompaction" -> possible
                      [] OTHER -> IF possible = {} THEN {} ELSE {CHOOSE plan \in possible : TRUE}
        : Stage(c, plan)
SeenEnd(c) ==
  /\ at <= Len(Traces[trace]) /\ Event.job = c
  /\ \/ (Sees("CommitCompaction") /\ CommitCompaction(c))
     \/ (Sees("RefuseCompaction") /\ RefuseCompaction(c))
SeenCrash(job) == Sees("Crash") /\ Event.job = job /\ Crash(job)

\* The next state is the one that the event shows.  Clauses: RD-1, DV-1, CMT-20.
Observed ==
  LET created == [n \in 1..(Len(files') - Len(files)) |-> files'[Len(files) + n].records]
      rows    == {<<r.key, r.row>> : r \in PlainRead(Later)}
  IN /\ snapshot' = Event.snapshot /\ live' = Event.live /\ vectors' = Event.vectors
     /\ created = Event.created
     /\ rows = Event.rows /\ Cardinality(rows) = Event.count

\* Print how far a trace is explained, once.
Printed == IF at > TLCGet(trace) THEN TLCSet(trace, at) /\ PrintT(<<"explained", trace, at>>) ELSE TRUE

TraceNext ==
  /\ \/ SeenWrite
     \/ \E w \in Writers : SeenBeginWrite(w) \/ SeenCommitWrite(w)
     \/ \E c \in Compactors : SeenPlan(c) \/ SeenEnd(c)
     \/ \E job \in Jobs : SeenCrash(job)
  /\ Observed
  /\ Printed
  /\ at' = at + 1 /\ UNCHANGED trace
TraceSpec == TraceInit /\ [][TraceNext]_all

\* An output is cut where the files that its commit created begin.  Clauses: CMP-15.
RECURSIVE CutBefore(_, _)
CutBefore(records, keys) ==
  LET starts == {i \in 2..Len(records) : records[i].key \in keys}
  IN IF starts = {} THEN <<records>>
     ELSE LET cut == Min(starts)
          IN <<SubSeq(records, 1, cut - 1)>> \o CutBefore(SubSeq(records, cut, Len(records)), keys)
CutAsSeen(records) ==
  CutBefore(records, IF Event.action # "PlanCompaction" THEN {} ELSE {output[1].key : output \in Range(Event.outputs)})
=============================================================================
