----------------------------- MODULE StoreTraces ----------------------------
(* Is what actors did on a store a behaviour of StoreOperations?

   A trace has the ids of the snapshots that were there at first, and a sequence of
   events.  An event is a step of StoreOperations, with what could be seen of it, and
   with the ids of the snapshot files that were there after it.  Rows are not seen:
   every commit is a write of nothing.  TLC prints how far each trace is explained.
   model_tests/tlc/store_traces.py writes the traces as a module StoreTraceData that
   replaces the example here.

   Two things are written otherwise than they happen.  An expiry that names several
   snapshots is several expiries at once, each by an expirer of its own.  A put that
   arrives after its job sent it again or gave it up is seen only if it creates a
   file: else nothing can be seen.

   An event has the fields action, job and files, and some have more:
     base, epoch   of Prepare: the latest snapshot, and how many rollbacks are known
     epoch         of LookAfterwards: how many rollbacks are known now
     id            of Send, Deliver and Remove: of the snapshot file
     answer        of ArriveFree: whether the job learns of it
     wire          of LoseAnswer: whether the request may still arrive
     saw           of ReadBack: "mine", "other" or "absent"
     target        of PlanRollback
     names         of FenceExpiry and FenceRollback: the jobs whose snapshots are named *)
EXTENDS StoreOperations, StoreTraceData, TLC

VARIABLES trace,  \* a number: which trace
          at      \* a number: its next event
everything == <<all, trace, at>>

Actions == {"Begin", "Prepare", "LookAfterwards", "Send", "ArriveFree", "ArriveTaken", "LoseAnswer", "ReadBack", "Tell",
            "Lose", "SendAgain", "Die", "Deliver", "Remove", "PlanExpiry", "FenceExpiry", "PlanRollback", "FenceRollback"}
Events == Traces[trace].events
ASSUME \A one \in DOMAIN Traces : \A n \in DOMAIN Traces[one].events : Traces[one].events[n].action \in Actions

StoreTraceTypeOK == StoreTypeOK /\ trace \in DOMAIN Traces /\ at \in 1..(Len(Events) + 1)

Event == Events[at]
Ids == (Traces[trace].expired + 1)..Traces[trace].latest

\* A table with some snapshots, each of a write, of which the oldest have expired.
TraceInit ==
  /\ trace \in DOMAIN Traces /\ at = 1 /\ TLCSet(trace, 0)
  /\ files = [b \in BucketIds |-> <<>>]
  /\ snapshots = [id \in Ids |-> [Empty EXCEPT !.writes = id]] /\ tags = [id \in {} |-> Empty]
  /\ stored = {} /\ lock = "free" /\ log = [n \in 1..Traces[trace].latest |-> <<>>]
  /\ pending = [job \in Jobs |-> Idle]
  /\ expired = Traces[trace].expired /\ rollbacks = <<>>
  /\ held = [id \in Ids |-> [owner |-> Nobody, epoch |-> 0]]
  /\ puts = [j \in Jobs |-> NoPut] /\ late = {} /\ mistaken = FALSE
  /\ expiries = [e \in Expirers |-> NoJob] /\ rollings = [r \in Rollers |-> NoJob]
  /\ readings = [r \in Readers |-> NoRead]

\* The next event is of this kind.
Sees(action) == at <= Len(Events) /\ Event.action = action

\* A step of a job that commits.
SeenCommit(j) ==
  \/ Sees("Begin") /\ puts[j].step = "none" /\ Step(BeginWrite(j, <<>>))
  \/ Sees("Prepare") /\ PrepareStep(j) /\ pending'[j].base = Event.base /\ puts'[j].epoch = Event.epoch
  \/ Sees("LookAfterwards") /\ LookAfterwards(j) /\ puts'[j].epoch = Event.epoch
  \/ Sees("Send") /\ Send(j) /\ puts'[j].id = Event.id
  \/ Sees("ArriveFree") /\ ArriveFree(j) /\ Event.answer = (puts'[j].step = "put")
  \/ Sees("ArriveTaken") /\ ArriveTaken(j)
  \/ Sees("LoseAnswer") /\ LoseAnswer(j) /\ puts'[j].wire = Event.wire
  \/ Sees("ReadBack") /\ ReadBack(j) /\ puts'[j].saw = Event.saw
  \/ Sees("Tell") /\ Tell(j)
  \/ Sees("Lose") /\ Lose(j)
  \/ Sees("SendAgain") /\ SendAgain(j)
  \/ Sees("Die") /\ Die(j)

\* A put arrives late, and creates its file.
SeenDelivery(j) ==
  /\ Sees("Deliver") /\ Event.id \notin DOMAIN held
  /\ IF puts[j].wire /\ puts[j].id = Event.id THEN ArriveFree(j)
     ELSE ArriveLate /\ \E put \in late : put.job = j /\ put.id = Event.id

\* A fence names the snapshots of all jobs that do not know yet what has become of them.
NamesAll(seen) == seen \subseteq Event.names \cup {Nobody}
SeenExpiry(e) ==
  \/ Sees("PlanExpiry") /\ PlanExpiry(e)
  \/ /\ Sees("FenceExpiry") /\ FenceExpiry(e)
     /\ IsNextFence(expiries[e]) /\ NamesAll(expiries[e].seen)

SeenRollback(r) ==
  \/ Sees("PlanRollback") /\ PlanRollback(r) /\ rollings'[r].id = Event.target
  \/ /\ Sees("FenceRollback") /\ FenceRollback(r)
     /\ IsNextFence(rollings[r]) /\ NamesAll(rollings[r].seen)

SeenRemoval ==
  LET expirers == {e \in Expirers : expiries[e].step = "fenced" /\ expiries[e].id = Event.id}
  IN /\ Sees("Remove")
     /\ IF expirers # {} THEN \E e \in expirers : RemoveExpired(e) ELSE Sweep \/ RemoveVoid

\* The store is as the event shows it, readers see the snapshots of Commit, and nobody is wrong.
Observed == DOMAIN held' = Event.files /\ BelievedAreSnapshots' /\ NobodyIsWrong'

\* Print how far a trace is explained, once.
Printed == IF at > TLCGet(trace) THEN TLCSet(trace, at) /\ PrintT(<<"explained", trace, at>>) ELSE TRUE

TraceNext ==
  /\ at <= Len(Events)
  /\ \/ \E j \in Jobs : j = Event.job /\ (SeenCommit(j) \/ SeenDelivery(j))
     \/ \E e \in Expirers : e = Event.job /\ SeenExpiry(e)
     \/ \E r \in Rollers : r = Event.job /\ SeenRollback(r)
     \/ SeenRemoval
  /\ Observed
  /\ Printed
  /\ at' = at + 1 /\ UNCHANGED trace
TraceSpec == TraceInit /\ [][TraceNext]_everything
=============================================================================
