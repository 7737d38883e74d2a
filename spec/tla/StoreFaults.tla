----------------------------- MODULE StoreFaults ----------------------------
(* Faults of StoreOperations, each one operator done mistaken; see Faults. *)
EXTENDS StoreOperations

\* A job does not look at the fences after its put.  P1.
NeverGone(put) == FALSE

\* A fence names ids and not snapshots.  P2.
NamesNoPut(seen, ids) == puts

\* A job whose answer was lost finds no file, and takes that for a failure.  P3.
AbsentIsLost(put) ==
  IF Gone(put) THEN (IF put.named THEN "committed" ELSE "lost")
  ELSE IF put.step = "put" \/ put.saw = "mine" THEN "committed" ELSE "lost"

\* A job whose answer was lost finds a file, and takes it for its own.  P4.
FoundIsMine(put) ==
  IF Gone(put) THEN (IF put.named THEN "committed" ELSE "lost")
  ELSE IF put.step = "put" \/ put.saw \in {"mine", "other"} THEN "committed" ELSE "again"

\* A job whose answer was lost finds a file that was rolled back, and takes its id for taken.  P9.
AnyFileHasId(put) == put.saw = "other"

\* An expiry removes the file before it puts the fence.  P5.
RemovesFirst(e) ==
  /\ expiries[e].step = "planned" /\ held' = Without(held, expiries[e].id)
  /\ UNCHANGED vars /\ UNCHANGED <<expired, rollbacks, puts, late, expiries, rollings, readings, mistaken>>

\* A fence is put without regard to fences that came between.  P6.
AnyFence(job) == TRUE

\* A snapshot does not say which rollbacks its job knew.  P7.
NeverVoid(id, epoch) == FALSE

\* A rollback deletes the data files of the snapshots that go.  P10.
DeletesTheirs(ids) ==
  LET left == DOMAIN snapshots \ ids
  IN stored \ (UNION {Needed(snapshots[id]) : id \in ids} \ UNION {Needed(snapshots[id]) : id \in left})

\* A job whose answer was lost finds no file, and waits for it.  P11.
WaitsForItsPut(put) ==
  IF Gone(put) THEN (IF put.named THEN "committed" ELSE "lost")
  ELSE IF put.step = "put" \/ put.saw = "mine" THEN "committed"
  ELSE IF HasId(put) THEN "lost" ELSE "unsure"

\* A file of a job that has ended belongs to nobody known.  T1.
ReleasedToNoJob(f, j) ==
  [id \in DOMAIN f |-> IF f[id].owner = j THEN [f[id] EXCEPT !.owner = "no job"] ELSE f[id]]

\* A reader does not look at the fences.  P8.
BelievesTheFile(read) == FALSE
=============================================================================
