---------------------------- MODULE CommitFaults ---------------------------
(* Commit done wrong, one operator at a time; see Faults. *)
EXTENDS Commit

\* A part of the commit rule is left out, as in Faults.  C3.
Never(b, plan) == FALSE

\* Retractions are dropped, and mark nothing.  C9.
NeverKept(b, key, level, marks) == FALSE
MarksNothing(b, group, level) == {}

\* A number that a write gave and no record has is taken for free.  C17.
ComparesWhatIsLeft(b, staged) ==
  LET left == {r.seq : r \in Flush(staged.changes, staged.first)}
  IN IF Min(left) >= NextSequence(b) THEN staged.first ELSE NextSequence(b)

\* A job that lost the race puts what it had prepared under the next number.  C14.
RetriesAsItWas(work) == [work EXCEPT !.base = @ + 1]

\* A number is free if no snapshot has it, though one had it and has expired.  C18.
IsThere(job) == (pending[job].base + 1) \in DOMAIN snapshots

\* Expiry knows of snapshots only.  B52.
NothingKept == {}

\* Nobody takes the lock of a job that is gone.
StaysLocked(job) == lock
=============================================================================
