-------------------------- MODULE LogArchiveFaults -------------------------
(* Faults of LogArchive, each one operator done wrong; see Faults. *)
EXTENDS LogArchive

\* A file is deleted before the history has the write.
ForgetsFirst == ~requested

RequestedAnyTime == completed

\* The completed file is deleted before the requested one.
CompletedFirst == history

RequestedLast == history /\ ~completed

\* Nobody looks into the history.
NeverArchived == FALSE

\* A late decision is obeyed although the requested file is gone.
ObeysLate == FALSE

\* A decision is deleted although its write is still on the timeline.
LeavesEarly == ~completed
=============================================================================
