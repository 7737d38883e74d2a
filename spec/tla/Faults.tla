------------------------------- MODULE Faults ------------------------------
(* DeletionVectors done wrong, one operator at a time.

   A model that must fail replaces an operator of Bucket or DeletionVectors by
   one of these, as models.json says.  Each is after a bug some lake format
   had; the ids C and B are those of the notes in README.md.               *)
EXTENDS DeletionVectors

\* A part of the commit rule is left out.  VectorsChanged and TargetGone replaced
\* by this are Paimon's rule for tables with buckets: inputs live, levels
\* disjoint (C3).  TargetGone alone leaves "index unchanged" (C4).
Never(b, plan) == FALSE

----------------------- (* what a compaction picks *) -----------------------
\* The oldest level-0 run may be left behind: only a prefix of level 0.  C13.
PicksSomeOfLevelZero(b) ==
  LET runs == Runs(b, b.live)
  IN {[Take(runs, Len(runs)) EXCEPT !.entries = Taken(runs, n) \cup {e \in b.live : Level(e) > 0}]
      : n \in 1..ZeroCount(runs)}

\* A compaction plans from what a plain read sees, without level 0.  B36.
ForgetsLevelZero(b) ==
  LET runs == Runs(b, {e \in b.live : Level(e) > 0})
  IN {Take(runs, n) : n \in 2..Len(runs)}

\* The output level is that of the first run not taken, not one less.
TakesTheNextLevel(runs, n) ==
  [entries |-> Taken(runs, n), full |-> FALSE, purges |-> FALSE,
   level |-> IF n = Len(runs) THEN MaxLevel ELSE LevelOf(runs[n + 1])]

\* Everything goes to a level that there is not.
PicksBelowTheLastLevel(b) ==
  LET runs == Runs(b, b.live)
  IN IF runs = <<>> THEN {} ELSE {[Take(runs, Len(runs)) EXCEPT !.level = MaxLevel + 1]}

------------------------ (* what a compaction marks *) ----------------------
\* An upsert marks nothing: two live rows.  C12.
MarksNothing(b, group, level) == {}

\* The lookup is skipped for retractions, and they are dropped.  C9.
MarksNoRetractions(b, group, level) ==
  LET retracted == {r.key : r \in {r \in UNION {Visible(b, f) : f \in Named(group)} : ~IsAdd(r)}}
  IN Lookup(b, KeysToLookUp(b, group) \ retracted, level)
DropsRetraction(b, key, level, marks) == FALSE

\* A row of an input is marked: of a file the same compaction rewrites.  C10.
MarksInputs(b, group, level) ==
  LET keys == UNION {KeysOf(Visible(b, File(e))) : e \in {e \in group : Level(e) = 0}}
      Own(e) == {<<File(e), i>> : i \in {i \in DOMAIN Records(b, File(e)) :
                                          Records(b, File(e))[i].key \in keys}}
  IN Lookup(b, KeysToLookUp(b, group), level) \cup UNION {Own(e) : e \in {e \in group : Level(e) > 0}}

\* The cache of a file answers without its vector: rows hidden long ago.  C7.
StaleLookup(b, keys, level) ==
  UNION {{<<File(e), i>> : i \in {i \in DOMAIN Records(b, File(e)) : Records(b, File(e))[i].key \in keys}}
         : e \in {e \in b.live : Level(e) > level}}

\* Positions are counted from the record after.  B26.
LooksOneTooFar(b, keys, level) == {<<mark[1], mark[2] + 1>> : mark \in StaleLookup(b, keys, level)}

\* A write marks what it replaces at once, its own rows still hidden: the
\* index is committed a snapshot before the data.  B44.
MarksWhenWritten(b, f) ==
  b.vectors \cup Lookup(b, KeysOf(Range(Records(b, f))), 0)

\* The same, level 0 included.
MarksLevelZero(b, f) ==
  b.vectors \cup {mark \in Lookup(b, KeysOf(Range(Records(b, f))), -1) : mark[1] # f}

---------------------- (* what a compaction rewrites *) ---------------------
\* Inputs are read without their vectors.  C11.
ReadsAll(b, f) == Range(Records(b, f))

\* The vector of a file that is gone stays in the index.  C6, C10.
KeepsAllVectors(b, rewritten) == b.vectors

\* Rewriting one file loses the vectors of the others in the index.
DropsAllVectors(b, rewritten) == IF rewritten = {} THEN b.vectors ELSE {}

\* A merge lets the smallest sequence number win.
Older(r, s) == r.seq < s.seq

\* Records are stored in the order they came.
AsTheyCame(S) == [i \in 1..Cardinality(S) |->
                    CHOOSE r \in S : Cardinality({s \in S : s.seq < r.seq}) = i - 1]

\* An upgrade is written without its level: the file is back at level 0.
UpgradesToZero(b, plan) ==
  LET created == (Len(b.files) + 1)..(Len(b.files) + Len(plan.outputs))
  IN [files   |-> b.files \o [n \in DOMAIN plan.outputs |->
                                [records |-> plan.outputs[n], born |-> plan.level]],
      live    |-> (b.live \ plan.inputs) \cup {<<f, plan.level>> : f \in created}
                  \cup {<<f, 0>> : f \in plan.upgraded},
      vectors |-> plan.vectors]

\* What a rewrite creates takes the name of one of its inputs.
KeepsTheName(b, plan) ==
  IF Len(plan.outputs) # 1 THEN b
  ELSE LET name == Min(Named(plan.inputs) \ plan.upgraded)
       IN [files   |-> [b.files EXCEPT ![name] = [records |-> plan.outputs[1], born |-> plan.level]],
           live    |-> (b.live \ plan.inputs) \cup {<<f, plan.level>> : f \in {name} \cup plan.upgraded},
           vectors |-> plan.vectors]

---------------------------- (* what commits *) -----------------------------
\* Nothing is looked for: a plan is committed whatever came between.  C14.
NoConflict(b, plan) == ""

\* A write keeps the number it was begun with.  C2.
KeepsItsNumber(b, staged) == staged.first

\* Only the numbers of the records that are left are compared.  Where a later
\* change of its key replaced the first of a write, a number below them is
\* free, and a write that came between may have it.  C17.
ComparesWhatIsLeft(b, staged) ==
  LET left == {r.seq : r \in Flush(staged.changes, staged.first)}
  IN IF Min(left) >= NextSequence(b) THEN staged.first ELSE NextSequence(b)

\* A first repair of it, which is not enough: a compaction must not leave an older
\* run behind at level 0.  What came between may be compacted by then.
InputGoneOrOlderLeft(b, plan) ==
  \/ ~(plan.inputs \subseteq b.live)
  \/ \E e \in b.live \ plan.inputs, g \in plan.inputs : Level(e) = 0 /\ Level(g) = 0 /\ NewerRun(b, g, e)

\* A crash leaves the index it had already overwritten.
LeavesTheIndex(b, work) == IF work.kind = "compaction" THEN [b EXCEPT !.vectors = work.vectors] ELSE b

------------------------ (* vectors on an old table *) ----------------------
\* Vectors are switched on though levels overlap, as they may without.  C8.
OnFromTheFifthSnapshot(b) == snapshot >= 5

\* As it should be: on from a rewrite of all runs.
OnAfterAFullCompaction(b) == \E f \in DOMAIN b.files : b.files[f].born = MaxLevel
=============================================================================
