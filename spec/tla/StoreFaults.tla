----------------------------- MODULE StoreFaults ----------------------------
(* Faults of StoreOperations, each one operator done wrong; see Faults. *)
EXTENDS StoreOperations

\* A job does not look at the fences after its put.
NeverGone(put) == FALSE

\* A fence names ids and not snapshots.
NamesNoPut(seen, ids) == puts

\* A job whose answer was lost finds no file, and takes that for a failure.
AbsentIsLost(put) ==
  IF Gone(put) THEN (IF put.named THEN "committed" ELSE "lost")
  ELSE IF put.step = "put" \/ put.saw = "mine" THEN "committed" ELSE "lost"

\* A job whose answer was lost finds a file, and takes it for its own.
FoundIsMine(put) ==
  IF Gone(put) THEN (IF put.named THEN "committed" ELSE "lost")
  ELSE IF put.step = "put" \/ put.saw \in {"mine", "other"} THEN "committed" ELSE "again"

\* A job whose answer was lost finds a file that was rolled back, and takes its id for taken.
AnyFileHasId(put) == put.saw = "other"

\* An expiry removes the file before it puts the fence.
RemovesFirst(e) ==
  /\ expiries[e].step = "planned" /\ held' = Without(held, expiries[e].id)
  /\ UNCHANGED vars /\ UNCHANGED <<expired, rollbacks, puts, late, expiries, rollings, readings, wrong>>

\* A fence is put without regard to fences that came between.
AnyFence(job) == TRUE

\* A snapshot does not say which rollbacks its job knew.
NeverVoid(id, epoch) == FALSE

\* A reader does not look at the fences.
BelievesTheFile(read) == FALSE
=============================================================================
