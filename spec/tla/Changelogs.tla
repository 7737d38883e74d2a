----------------------------- MODULE Changelogs -----------------------------
(* DeletionVectors with a changelog that compactions look up.

   A compaction is planned with the changes that it will record: for each key of a
   level-0 record that it takes, the row before and the row after.  They become
   visible with its commit, which may come after other commits.  A consumer applies
   them in order.  It must always have the rows above level 0, and the row before a
   change must be the row that it has.
   Clauses: CHG-5, CHG-6, CHG-9.                                              *)
EXTENDS DeletionVectors

VARIABLES recorded,  \* a function from job to a set of changes: what its compaction will record
          consumer   \* a function from key to row: the rows by all changes recorded so far

ChangelogVars == <<vars, recorded, consumer>>

KeyChange == [key : Int, before : SUBSET Int, after : SUBSET Int]
ChangelogTypeOK == /\ recorded \in [Jobs -> SUBSET KeyChange]
                   /\ \A job \in Jobs : \A change \in recorded[job] :
                        Cardinality(change.before) <= 1 /\ Cardinality(change.after) <= 1
                   /\ DOMAIN consumer \subseteq Int /\ Range(consumer) \subseteq Int

------------------------------ (* recording *) ------------------------------
RowsIn(records, key) == {r.row : r \in {r \in records : r.key = key /\ IsAdd(r)}}

\* The records of a file that a lookup sees.  Clauses: CHG-6.
SeenByLookup(b, f) == Visible(b, f)

\* The records of a key in the least deep of some entries above level 0 that has any.
LeastDeep(b, entries, key) ==
  LET holding == {e \in entries : Level(e) > 0 /\ key \in KeysOf(SeenByLookup(b, File(e)))}
      top     == {e \in holding : \A g \in holding : Level(e) <= Level(g)}
  IN {r \in UNION {SeenByLookup(b, File(e)) : e \in top} : r.key = key}

\* The row above level 0 that a compaction replaces: of an input, or of a deeper file.  Clauses: CHG-5.
RowBefore(b, plan, key) ==
  LET taken  == LeastDeep(b, plan.inputs, key)
      deeper == LeastDeep(b, {e \in b.live : Level(e) > plan.level}, key)
  IN RowsIn(IF taken # {} THEN taken ELSE deeper, key)

\* Clauses: CHG-5.
RowAfter(b, plan, key) ==
  RowsIn(UNION {Range(plan.outputs[n]) : n \in DOMAIN plan.outputs}
         \cup UNION {Visible(b, f) : f \in plan.upgraded}, key)

\* The changes that a compaction of bucket b records.  Clauses: CHG-5.
Changes(b, plan) ==
  {[key |-> key, before |-> RowBefore(b, plan, key), after |-> RowAfter(b, plan, key)]
   : key \in UNION {KeysOf(Visible(b, File(e))) : e \in {e \in plan.inputs : Level(e) = 0}}}

\* The changes of the compaction that is staged with a write, on the bucket after it.
OwnChanges(changes, plan) ==
  IF plan = Idle THEN {}
  ELSE Changes(Written(Now, changes, NextSequence(Now)), Renamed(plan, OwnFile, Len(files) + 1))

\* The rows of a consumer after some changes.
Applied(rows, changes) ==
  LET new == {change \in changes : change.after # {}}
      New(key) == CHOOSE row \in (CHOOSE change \in new : change.key = key).after : TRUE
  IN [key \in (DOMAIN rows \ KeysOf(changes)) \cup KeysOf(new) |-> IF key \in KeysOf(new) THEN New(key) ELSE rows[key]]

------------------------------- (* actions *) -------------------------------
WillRecord(job, changes) == recorded' = [recorded EXCEPT ![job] = changes]

ChangelogInit == Init /\ recorded = [job \in Jobs |-> {}] /\ consumer = <<>>

ChangelogNext ==
  \/ \E n \in DOMAIN Batches : Write(Batches[n]) /\ UNCHANGED <<recorded, consumer>>
  \/ \E w \in Writers, n \in DOMAIN Batches :
       /\ BeginWrite(w, Batches[n])
       /\ WillRecord(w, OwnChanges(Batches[n], pending'[w].plan)) /\ UNCHANGED consumer
  \/ \E w \in Writers :
       /\ CommitWrite(w)
       /\ WillRecord(w, IF pending'[w] = Idle THEN {} ELSE recorded[w]) /\ UNCHANGED consumer
  \/ \E c \in Compactors : PlanCompaction(c) /\ WillRecord(c, Changes(Now, pending'[c])) /\ UNCHANGED consumer
  \/ \E c \in Compactors : CommitCompaction(c) /\ WillRecord(c, {}) /\ consumer' = Applied(consumer, recorded[c])
  \/ \E c \in Compactors : RefuseCompaction(c) /\ WillRecord(c, {}) /\ UNCHANGED consumer
  \/ \E job \in Jobs : Crash(job) /\ WillRecord(job, {}) /\ UNCHANGED consumer

ChangelogSpec == ChangelogInit /\ [][ChangelogNext]_ChangelogVars

------------------------------- (* invariants *) ----------------------------
\* The fold of the changes is what a read of the levels above 0 returns.  Clauses: CHG-9.
ConsumerHasTheRows == consumer = AsTable(Merged(Now, {e \in live : Level(e) > 0}))

\* A compaction that may commit now records the row before that the consumer has.  Clauses: CHG-5, CHG-6.
RowsBeforeAreTrue ==
  \A c \in Compactors : Is(c, "compaction") /\ Conflict(Now, pending[c]) = "" =>
    \A change \in recorded[c] :
      change.before = {consumer[key] : key \in DOMAIN consumer \cap {change.key}}
=============================================================================
