---------------------------- MODULE LevelsFaults ---------------------------
(* Faults of Levels, each one operator done wrong; see Faults. *)
EXTENDS Levels

\* A run goes to any level, also to that of an older run or below it.
FitsAnywhere(level, j) == TRUE

\* Any record from below may take part in a merge, also if a newer one of its key
\* stays below.
TakesAnyRecord(gone, merged, below) == TRUE

\* A write begins with number 0.
FromZero == 0

\* The smallest sequence number wins.
Older(r, s) == r.seq < s.seq
=============================================================================
