---------------------------- MODULE LevelsFaults ---------------------------
(* Levels done wrong, one operator at a time; see Faults. *)
EXTENDS Levels

\* A run goes to any level, beside or below an older one.
FitsAnywhere(level, j) == TRUE

\* Any older record may be taken into a merge, over a newer one that stays below.
TakesAnyRecord(gone, merged, below) == TRUE

\* A merge lets the smallest sequence number win.
Older(r, s) == r.seq < s.seq
=============================================================================
