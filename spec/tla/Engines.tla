------------------------------ MODULE Engines ------------------------------
(* Merge engines: how the changes of one key become one change.

   A change has a kind and a row; an engine looks at nothing else.  Kinds are
   "+I" and "+U", which are adds and leave a row, and "-D", which is a retraction
   and leaves none.  A row is a number.

   An engine is an operator on a sequence of changes of one key, oldest first,
   at least one.  Its value is the one change that does to the row of the key
   what these changes do one after another.  Constants only: no state.      *)
EXTENDS Integers, Sequences

Kinds == {"+I", "-D", "+U"}
IsAdd(change) == change.kind # "-D"

\* The newest change decides.  Clauses: MRG-1, MRG-3.
Deduplicate(changes) == changes[Len(changes)]

\* The engine of the table; a model may replace it.
Engine(changes) == Deduplicate(changes)

--------------------------------- (* laws *) --------------------------------
\* A compaction merges some adjacent records of a key, and a later one merges the
\* result with the others.  The order of the two must not matter.
Associative(Fold(_), changes) ==
  \A i, j \in DOMAIN changes : i <= j =>
    Fold(SubSeq(changes, 1, i - 1) \o <<Fold(SubSeq(changes, i, j))>> \o SubSeq(changes, j + 1, Len(changes)))
      = Fold(changes)

\* A compaction drops a retraction that has nothing older below it.  That must not
\* be visible: a retraction of no row does nothing.
IgnoresFirstRetraction(Fold(_), changes) ==
  LET RowsOf(change) == IF IsAdd(change) THEN {change.row} ELSE {}
  IN RowsOf(Fold(<<[kind |-> "-D", row |-> 0]>> \o changes)) = RowsOf(Fold(changes))

\* The laws for all sequences of up to three changes of two rows.
Samples == UNION {[1..n -> [kind : Kinds, row : 1..2]] : n \in 1..3}
IsLawful(Fold(_)) == \A changes \in Samples : Associative(Fold, changes) /\ IgnoresFirstRetraction(Fold, changes)

ASSUME IsLawful(Deduplicate)
=============================================================================
