--------------------------- MODULE LogCleanFaults --------------------------
(* Faults of LogClean, each one operator done wrong; see Faults. *)
EXTENDS LogClean

\* The slices stay that begin at the retained instant or later, and no other.
KeptFrom(at) == at

\* Files are deleted before the plan is on the timeline.
DeletesFirst == cleaner.phase \in {"chosen", "deleting"}

\* A plan names no file.
NamesNothing == {}

\* A reader goes on with a timeline that lacks a clean.
NeverOutdated == FALSE

\* A reader looks for cleans before it lists files.
LookedBefore == "looked"
LoadedBefore == "loaded"
=============================================================================
