----------------------------- MODULE MaxEngine -----------------------------
(* A second merge engine, for models and tests only: the maximum of a column.

   A row stands for its value of that column.  "+I" raises the row of its key to
   its own row, "+U" sets it, "-D" removes it.  So a key that only "+I" writes
   has the greatest row since its last retraction.

   The subtle case: a retraction and a later "+I" are merged before the older
   records of the key are read.  The result must say that older records no longer
   count; "+U" says that.                                                   *)
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
\* A retraction and a later "+I" become the "+I" alone: older records count again.
ForgetsRetractions(changes) ==
  LET last == LastHiding(changes)
  IN IF last # 0 /\ ~IsAdd(changes[last]) /\ RowsThatCount(changes) # {}
     THEN [MaxOfColumn(changes) EXCEPT !.kind = "+I"]
     ELSE MaxOfColumn(changes)

ASSUME ~IsLawful(ForgetsRetractions)

\* A key that was removed never comes back: a retraction of no row does something.
NeverComesBack(changes) ==
  IF \E n \in DOMAIN changes : ~IsAdd(changes[n]) THEN [kind |-> "-D", row |-> 0] ELSE Deduplicate(changes)

ASSUME ~IsLawful(NeverComesBack)
=============================================================================
