------------------------------- MODULE Table -------------------------------
(* The meaning of a table.  There are no files here.

   In every snapshot a table is a function from key to row: `rows`.  A fresh read
   returns it.  A default read of a table with deletion vectors returns `absorbed`,
   the rows without the newest writes, which are in `waiting`.  We say that a write
   is absorbed once it is visible after compaction, that is, to default reads.  So
       rows = absorbed with the waiting writes applied in order,
   and the modules that refine this one may do two things: a write adds to rows and
   to waiting, a compaction moves the oldest waiting writes into absorbed.
   Each commit is one snapshot; `rows` of a state is the table at `snapshot`. *)
EXTENDS Engines

VARIABLES snapshot,  \* a number: the id of the latest snapshot, 0 before the first
          rows,      \* a function from key to row: the fold of all writes
          absorbed,  \* a function from key to row: the fold of the writes that are absorbed
          waiting    \* a sequence of functions from key to change: the other writes, oldest first

vars == <<snapshot, rows, absorbed, waiting>>

IsTable(f) == DOMAIN f \subseteq Int /\ \A key \in DOMAIN f : f[key] \in Int
IsWrite(f) == /\ DOMAIN f \subseteq Int
              /\ \A key \in DOMAIN f : f[key] \in [kind : Kinds, row : Int]
TypeOK == /\ snapshot \in Nat
          /\ IsTable(rows) /\ IsTable(absorbed)
          /\ DOMAIN waiting = 1..Len(waiting) /\ \A n \in DOMAIN waiting : IsWrite(waiting[n])

Nothing == [key \in {} |-> 0]

\* The table after some writes: the engine folds the row of each key and the changes
\* of the key, in order.  Clauses: TBL-4, TBL-7, MRG-3.
ApplyAll(table, writes) ==
  LET keys   == DOMAIN table \cup UNION {DOMAIN writes[n] : n \in DOMAIN writes}
      Old(k) == IF k \in DOMAIN table THEN <<[kind |-> "+I", row |-> table[k]]>> ELSE <<>>
      Of(k)  == SelectSeq(writes, LAMBDA write : k \in DOMAIN write)
      New(k) == Engine(Old(k) \o [n \in DOMAIN Of(k) |-> Of(k)[n][k]])
  IN [k \in {k \in keys : IsAdd(New(k))} |-> New(k).row]
Apply(table, write) == ApplyAll(table, <<write>>)

Init == snapshot = 0 /\ rows = Nothing /\ absorbed = Nothing /\ waiting = <<>>

\* Commit a write.  Any write is allowed here; the modules that refine this one say
\* which there are.  So the write is taken from the next state.  Clauses: TBL-7, RD-3, CMT-20.
Write ==
  /\ snapshot' = snapshot + 1
  /\ Len(waiting') = Len(waiting) + 1
  /\ LET write == waiting'[Len(waiting')]
     IN waiting' = Append(waiting, write) /\ rows' = Apply(rows, write)
  /\ UNCHANGED absorbed

\* Absorb the n oldest waiting writes.  Clauses: RD-2, RD-15, CMP-14, CMT-20.
Compact(n) ==
  /\ snapshot' = snapshot + 1
  /\ waiting' = SubSeq(waiting, n + 1, Len(waiting))
  /\ absorbed' = ApplyAll(absorbed, SubSeq(waiting, 1, n))
  /\ UNCHANGED rows

Next == Write \/ \E n \in 0..Len(waiting) : Compact(n)

Spec == Init /\ [][Next]_vars

\* The waiting writes are all that a default read lacks.  Clauses: RD-3, RD-15.
ReadsAgree == rows = ApplyAll(absorbed, waiting)
=============================================================================
