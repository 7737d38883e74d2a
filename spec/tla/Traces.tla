------------------------------- MODULE Traces ------------------------------
(* Is what a table did a behaviour of DeletionVectors?

   A trace is a sequence of events, each an action, a job and what could then
   be seen of the bucket.  An event must be a step that leads to just that.
   What cannot be seen is free: which of the allowed compactions was planned,
   which files were large, where an output was cut.  So several behaviours may
   explain one trace, and one is enough: TLC explores all and prints how far
   each trace has come.  model_tests/tlc/traces.py writes the traces as a module
   TraceData in place of the one here, which holds an example.

   An event is [action, job, snapshot, live, vectors, created, rows, count], a
   plan has four fields more:
     created  the records of each file seen for the first time, oldest first
     ends     of a plan: the action that will end it, "" if none does
     outputs, upgraded, gone   of a plan that will be committed: the records of
              the files this creates, the files it moves, and those it removes
     rows     what a plain read returns, pairs <<key, row>>; count of them   *)
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

\* A level-0 file as it was found: in key order, each number once and above all
\* others.  Clauses: LSM-1, LSM-5, LSM-10, CMT-10.
Found(records) ==
  /\ \A i, j \in DOMAIN records : i < j => records[i].key < records[j].key /\ records[i].seq # records[j].seq
  /\ \A r \in Range(records) : r.seq >= NextSequence(Now)
  /\ Commit([Now EXCEPT !.files = Append(@, [records |-> records, born |-> 0]),
                        !.live = @ \cup {<<Len(files) + 1, 0>>}])

SeenWrite == /\ Sees("Write") /\ Len(Event.created) = 1 /\ Found(Event.created[1]) /\ UNCHANGED pending
SeenBeginWrite(w) ==
  /\ Sees("BeginWrite") /\ Event.job = w /\ Is(w, "idle")
  /\ Stage(w, [kind |-> "write", changes |-> <<>>, first |-> 0, plan |-> Idle])
SeenCommitWrite(w) ==
  /\ Sees("CommitWrite") /\ Event.job = w /\ Is(w, "write")
  /\ Len(Event.created) = 1 /\ Found(Event.created[1]) /\ Drop(w)
\* What will be seen of a plan later spares trying the others.
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

\* What is seen after the event.  Clauses: RD-1, DV-1, CMT-20.
Observed ==
  LET created == [n \in 1..(Len(files') - Len(files)) |-> files'[Len(files) + n].records]
      rows    == {<<r.key, r.row>> : r \in PlainRead(Later)}
  IN /\ snapshot' = Event.snapshot /\ live' = Event.live /\ vectors' = Event.vectors
     /\ created = Event.created
     /\ rows = Event.rows /\ Cardinality(rows) = Event.count

\* Tell how far a trace has come, once.
Told == IF at > TLCGet(trace) THEN TLCSet(trace, at) /\ PrintT(<<"explained", trace, at>>) ELSE TRUE

TraceNext ==
  /\ \/ SeenWrite
     \/ \E w \in Writers : SeenBeginWrite(w) \/ SeenCommitWrite(w)
     \/ \E c \in Compactors : SeenPlan(c) \/ SeenEnd(c)
     \/ \E job \in Jobs : SeenCrash(job)
  /\ Observed
  /\ Told
  /\ at' = at + 1 /\ UNCHANGED trace
TraceSpec == TraceInit /\ [][TraceNext]_all

\* An output is cut where the files its commit created begin.  Clauses: CMP-15.
RECURSIVE CutBefore(_, _)
CutBefore(records, keys) ==
  LET starts == {i \in 2..Len(records) : records[i].key \in keys}
  IN IF starts = {} THEN <<records>>
     ELSE LET cut == Min(starts)
          IN <<SubSeq(records, 1, cut - 1)>> \o CutBefore(SubSeq(records, cut, Len(records)), keys)
CutAsSeen(records) ==
  CutBefore(records, IF Event.action # "PlanCompaction" THEN {} ELSE {output[1].key : output \in Range(Event.outputs)})
=============================================================================
