------------------------- MODULE FastForwardFaults --------------------------
(* Faults of FastForward, each one operator done wrong; see Faults. *)
EXTENDS FastForward

\* An expiry does not look at consumers.  W1.
AlwaysRead == TRUE

\* A fast-forward puts no fence after its consumer.  W2.
NoFence == fences

\* A fast-forward does not look whether its branch is there.  W3.
NotLookedForSchema == TRUE

\* A fast-forward does not look for removals.  W4.
NotLookedForRemovals == TRUE

\* A fast-forward does not look for its consumer.  W5.
NotLookedForItself(f) == TRUE

\* Who removes a branch does not look for fast-forwards.  W6.
NotLookedForForwards == TRUE

\* Who removes orphans reads the main branch first only.  W7.
MainFirst == <<"main", "branch">>

\* A fast-forward that does not know whether its put came removes its consumer.  W8.
Removed(f) == consumers \ {f}

\* A fast-forward does not look whether the main branch ends with a snapshot of the branch.  W9.
AgreesAlways == TRUE
ComesLater(s) == s.id > Latest(main).id

\* Who removes orphans does not read the branch.  W10.
MainOnly == <<"main", "main">>

\* A fast-forward goes on if another snapshot of the id is there.  W11.
IsTaken(s) == s.id <= Latest(main).id

\* A fast-forward puts a snapshot though another one of its id is there.  W12.
ComesAlways(s) == TRUE

\* A fast-forward removes what follows the first snapshot that it puts.  W13.
Instead(s) == {t \in main : t.id < s.id} \cup {s}

\* Who finds the other one at work waits for it.  W14.
Waits(f) == UNCHANGED <<consumers, jobs>>
=============================================================================
