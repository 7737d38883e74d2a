----------------------------- MODULE LookupMerge ----------------------------
(* Changelogs of a table without deletion vectors whose merge engine computes rows.

   The engine is a sum, for models only: it shows a record that counts twice.  A
   compaction merges the least deep row above level 0 into what it writes, and every
   merge leaves out what lies deeper.  A model replaces operators of Bucket and
   Changelogs by these.  Clauses: CHG-6, CHG-19 to CHG-21.                     *)
EXTENDS Changelogs

RECURSIVE Total(_)
Total(changes) == IF changes = <<>> THEN 0 ELSE Head(changes).row + Total(Tail(changes))

\* A merge engine that counts each change once.  The models that have it retract nothing.
SumOfRows(changes) == [changes[Len(changes)] EXCEPT !.row = Total(changes)]

\* The records of each run that a merge takes: above level 0, the least deep one of each key.  Clauses: CHG-19.
WithoutDeeper(b, runs) ==
  LET In(n) == UNION {Visible(b, f) : f \in Named(runs[n])}
      Shadowed(n) == UNION {KeysOf(In(m)) : m \in {m \in 1..(n - 1) : LevelOf(runs[m]) > 0}}
  IN [n \in DOMAIN runs |-> {r \in In(n) : r.key \notin Shadowed(n)}]

\* Clauses: CHG-19.
MergedOnce(b, entries) == {r \in Merge(WithoutDeeper(b, Runs(b, entries))) : IsAdd(r)}

\* Clauses: CHG-20.
RewriteWithDeeper(b, group, level, marks) ==
  LET deeper == {e \in b.live : Level(e) > level}
      keys   == UNION {KeysOf(Visible(b, File(e))) : e \in group}
  IN {r \in Merge(WithoutDeeper(b, Runs(b, group \cup deeper))) : r.key \in keys}

\* Clauses: CHG-21.
RewrittenToMerge(b, e, pick) == Level(e) = 0 /\ pick.level < MaxLevel

------------------------------- (* done wrong *) -----------------------------
\* A cached lookup that does not know the latest vectors finds a row that is deleted
\* (paimon#8204).
FindsDeletedRows(b, f) == Range(Records(b, f))

\* A lookup takes the records of all levels, without deletion vectors.
OfEveryLevel(b, entries, key) ==
  {r \in UNION {SeenByLookup(b, File(e)) : e \in {e \in entries : Level(e) > 0}} : r.key = key}

\* A row that is gone is no change.
KeepsRowsThatAreGone(rows, changes) ==
  LET new == {change \in changes : change.after # {}}
  IN [key \in DOMAIN rows \cup KeysOf(new) |->
        IF key \in KeysOf(new) THEN CHOOSE row \in (CHOOSE change \in new : change.key = key).after : TRUE ELSE rows[key]]

\* A compaction is committed whatever else was since it was planned.
CommitsBlindly(b, plan) == ""
=============================================================================
