------------------------------- MODULE Table -------------------------------
(* What a table means.  Nothing here knows of files.

   In every snapshot a table is a function from key to row: `rows`.  A reader
   that does not merge sees it as it was some writes ago: `absorbed`, which
   lags behind by the writes in `waiting`, oldest first.  So
       rows = absorbed with the waiting writes applied in order,
   and this is all that lower levels may do about it: a write adds to rows
   and to waiting, a compaction moves waiting writes into absorbed.
   Each commit is one snapshot; `rows` of a state is the table at `snapshot`. *)
EXTENDS Engines

VARIABLES snapshot,  \* number of the latest snapshot, 0 before the first
          rows,      \* key -> row, of all writes
          absorbed,  \* key -> row, of the writes compaction has absorbed
          waiting    \* the other writes, each a function key -> change

vars == <<snapshot, rows, absorbed, waiting>>

IsTable(f) == DOMAIN f \subseteq Int /\ \A key \in DOMAIN f : f[key] \in Int
IsWrite(f) == /\ DOMAIN f \subseteq Int
              /\ \A key \in DOMAIN f : f[key] \in [kind : Kinds, row : Int]
TypeOK == /\ snapshot \in Nat
          /\ IsTable(rows) /\ IsTable(absorbed)
          /\ DOMAIN waiting = 1..Len(waiting) /\ \A n \in DOMAIN waiting : IsWrite(waiting[n])

Nothing == [key \in {} |-> 0]

\* Writes in order: the row of a key becomes what the engine makes of it and of
\* the changes of the key.  Clauses: TBL-4, TBL-7, MRG-3.
ApplyAll(table, writes) ==
  LET keys   == DOMAIN table \cup UNION {DOMAIN writes[n] : n \in DOMAIN writes}
      Old(k) == IF k \in DOMAIN table THEN <<[kind |-> "+I", row |-> table[k]]>> ELSE <<>>
      Of(k)  == SelectSeq(writes, LAMBDA write : k \in DOMAIN write)
      New(k) == Engine(Old(k) \o [n \in DOMAIN Of(k) |-> Of(k)[n][k]])
  IN [k \in {k \in keys : IsAdd(New(k))} |-> New(k).row]
Apply(table, write) == ApplyAll(table, <<write>>)

Init == snapshot = 0 /\ rows = Nothing /\ absorbed = Nothing /\ waiting = <<>>

\* Commit a write.  Which writes there are is for whoever refines this to say:
\* any may come, so it is read off the next state.  Clauses: TBL-7, RD-3, CMT-20.
Write ==
  /\ snapshot' = snapshot + 1
  /\ Len(waiting') = Len(waiting) + 1
  /\ LET write == waiting'[Len(waiting')]
     IN waiting' = Append(waiting, write) /\ rows' = Apply(rows, write)
  /\ UNCHANGED absorbed

\* Absorb the n oldest of the waiting writes.  Clauses: RD-2, RD-15, CMP-14, CMT-20.
Compact(n) ==
  /\ snapshot' = snapshot + 1
  /\ waiting' = SubSeq(waiting, n + 1, Len(waiting))
  /\ absorbed' = ApplyAll(absorbed, SubSeq(waiting, 1, n))
  /\ UNCHANGED rows

Next == Write \/ \E n \in 0..Len(waiting) : Compact(n)

Spec == Init /\ [][Next]_vars

\* What makes `absorbed` worth reading.  Clauses: RD-3, RD-15.
ReadsAgree == rows = ApplyAll(absorbed, waiting)
=============================================================================
