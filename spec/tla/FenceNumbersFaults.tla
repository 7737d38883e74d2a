------------------------- MODULE FenceNumbersFaults ------------------------
(* Faults of FenceNumbers, each one operator done wrong; see Faults. *)
EXTENDS FenceNumbers

\* A process does not look after its put.
NeverLooks(p) == TRUE

\* A process takes each old fence of its own for one that was put too late.
OldIsLate(p) == ~IsOld(putting[p].number)

\* A fence is read that counts no more.
BelievesAll(a) == TRUE

\* A fence is removed although it counts.
PrunedEarly(n) == n + Kept <= Newest + 1

\* The newest fence is removed.
PrunedAlways(n) == TRUE
============================================================================
