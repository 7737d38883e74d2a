--------------------------- MODULE RollbackFaults ---------------------------
(* Faults of Rollbacks, each one operator done wrong; see Faults. *)
EXTENDS Rollbacks

\* A job compares the id of the latest snapshot alone.  C19.
ComparesTheId(job) == pending[job].base = LatestId

\* A rollback notes how far it went, and not where to.  T2.
NotesTheWay(target) == target - LatestId
=============================================================================
