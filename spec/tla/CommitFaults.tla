---------------------------- MODULE CommitFaults ---------------------------
(* Faults of Commit, each one operator done wrong; see Faults. *)
EXTENDS Commit

\* A part of the commit rule is missing, as in Faults.  C3.
Never(b, plan) == FALSE

\* Retractions are dropped, and delete no position.  C9.
NeverKept(b, key, level, marks) == FALSE
MarksNothing(b, group, level) == {}

\* A number that a write assigned and no record has is free.  C17.
ComparesWhatIsLeft(b, staged) ==
  LET left == {r.seq : r \in Flush(staged.changes, staged.first)}
  IN IF Min(left) >= NextSequence(b) THEN staged.first ELSE NextSequence(b)

\* The compaction of a write is dropped only if the write is renumbered.  C17, C21.
RemainsUnlessRenumbered(b, staged, f) ==
  IF staged.plan # Idle /\ FirstSequence(b, staged) = staged.first
  THEN Renamed(staged.plan, OwnFile, f) ELSE Idle

\* A job that lost the race puts its prepared snapshot under the next number.  C14.
RetriesAsItWas(work) == [work EXCEPT !.base = @ + 1]

\* A number is free if no snapshot has it, even if one had it and has expired.  C18.
IsThere(job) == (pending[job].base + 1) \in DOMAIN snapshots

\* Expiry knows of snapshots only.  B52.
NothingKept == {}

\* The lock of a crashed job is never free again.
StaysLocked(job) == lock
=============================================================================
