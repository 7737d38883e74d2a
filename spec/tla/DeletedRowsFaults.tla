------------------------- MODULE DeletedRowsFaults -------------------------
(* A fault of DeletedRows, an operator done wrong; see Faults. *)
EXTENDS DeletedRows

\* The rows that are left of a file with deleted rows get a new sequence number.  Clauses: CMP-29.
RenumbersRows(b, f) ==
  IF \E mark \in b.vectors : mark[1] = f THEN {[r EXCEPT !.seq = NextSequence(b)] : r \in Visible(b, f)}
  ELSE Visible(b, f)
=============================================================================
