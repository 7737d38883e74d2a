--------------------------- MODULE LogIndexFaults --------------------------
(* Faults of LogIndex, each one operator done wrong; see Faults. *)
EXTENDS LogIndex

\* A writer ends nobody.
EndsNobody(p) == {}

\* A planner ends nobody.
PlannersEndNobody(p) == IF p \in Planners THEN {} ELSE claimed \ {work[p].id}

\* An instant is kept although a later write is complete.
IsNeverOutrun(id) == FALSE

\* A writer does not see that it was rolled back.
DecidesAnyway(id) == TRUE

\* A write that was decided to be complete is rolled back.
IgnoresDecisions(other) == FALSE

\* A write is rolled back whose decision was deleted after it was complete.
MissesCompleted(other) == FALSE

\* Every write makes a file group of its own.
NeverLooksUp(id, known) == id
=============================================================================
