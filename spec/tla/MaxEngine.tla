----------------------------- MODULE MaxEngine -----------------------------
(* A second merge engine, for models and tests only: the maximum of a column.

   A row is its value of that column.  "+I" raises the row of its key to its own,
   "+U" sets it, "-D" removes it.  So the row of a key that is only inserted is
   the greatest one since its last deletion.

   The subtle case: a deletion and a later insert are merged before what is older
   is read.  The result must say that what is older no longer counts; "+U" says
   that.                                                                    *)
EXTENDS Engines

Greatest(S) == CHOOSE x \in S : \A y \in S : y <= x

\* The last change that is not "+I" hides what came before it; 0 if there is none.
LastHiding(changes) == Greatest({0} \cup {n \in DOMAIN changes : changes[n].kind # "+I"})
RowsThatCount(changes) ==
  {changes[n].row : n \in {n \in DOMAIN changes : n >= LastHiding(changes) /\ IsAdd(changes[n])}}

MaxOfColumn(changes) ==
  IF RowsThatCount(changes) = {} THEN changes[Len(changes)]
  ELSE [kind |-> IF LastHiding(changes) = 0 THEN "+I" ELSE "+U", row |-> Greatest(RowsThatCount(changes))]

ASSUME IsLawful(MaxOfColumn)

------------------------------- (* done wrong *) -----------------------------
\* A deletion and a later insert become the insert alone: what is older counts
\* again.
ForgetsDeletions(changes) ==
  LET last == LastHiding(changes)
  IN IF last # 0 /\ ~IsAdd(changes[last]) /\ RowsThatCount(changes) # {}
     THEN [MaxOfColumn(changes) EXCEPT !.kind = "+I"]
     ELSE MaxOfColumn(changes)

ASSUME ~IsLawful(ForgetsDeletions)
=============================================================================
