------------------------------- MODULE Faults ------------------------------
(* Faults of DeletionVectors, each one operator done wrong.

   A model that must fail replaces an operator of Bucket or DeletionVectors by one
   of these, as models.json says.  Each is after a bug that some lake format had;
   the ids C and B are those of README.md.                                  *)
EXTENDS DeletionVectors

\* A part of the commit rule is missing.  Without VectorsChanged and TargetGone it is
\* Paimon's rule for tables with buckets: inputs are live and levels disjoint (C3).
\* Without TargetGone alone it still asks whether the vectors are unchanged (C4).
Never(b, plan) == FALSE

-------------------------------- (* picks *) -------------------------------
\* Some of the oldest level-0 runs may be left behind.  C13.
PicksSomeOfLevelZero(b) ==
  LET runs == Runs(b, b.live)
  IN {[Take(runs, Len(runs)) EXCEPT !.entries = Taken(runs, n) \cup {e \in b.live : Level(e) > 0}]
      : n \in 1..ZeroCount(runs)}

\* A compaction plans from the files of a default read, without level 0.  B36.
ForgetsLevelZero(b) ==
  LET runs == Runs(b, {e \in b.live : Level(e) > 0})
  IN {Take(runs, n) : n \in 2..Len(runs)}

\* The output level is that of the first run that is not taken, not one less.
TakesTheNextLevel(runs, n) ==
  [entries |-> Taken(runs, n), full |-> FALSE, purges |-> FALSE,
   level |-> IF n = Len(runs) THEN MaxLevel ELSE LevelOf(runs[n + 1])]

\* All runs go to a level that does not exist.
PicksBelowTheLastLevel(b) ==
  LET runs == Runs(b, b.live)
  IN IF runs = <<>> THEN {} ELSE {[Take(runs, Len(runs)) EXCEPT !.level = MaxLevel + 1]}

\* Picks of an engine that also compacts one level by itself.  Ours never do, and then
\* CMT-7 already forbids all that CMT-11 forbids: of two compactions to one level, both
\* move something to it, and the later pick holds whatever the earlier one moves.
PicksOneLevelToo(b) ==
  LET runs == Runs(b, b.live)
      deeper == {run \in {runs[n] : n \in DOMAIN runs} : LevelOf(run) > 0}
      OneLevel(run) == [entries |-> run, level |-> LevelOf(run), full |-> FALSE, purges |-> FALSE]
  IN {OneLevel(run) : run \in deeper} \cup (IF runs = <<>> THEN {} ELSE {Take(runs, Len(runs))})

--------------------- (* the positions that are deleted *) -------------------
\* An upsert deletes no position: two live records.  C12.
MarksNothing(b, group, level) == {}

\* Retracted keys are not looked up, and the retractions are dropped.  C9.
MarksNoRetractions(b, group, level) ==
  LET retracted == {r.key : r \in {r \in UNION {Visible(b, f) : f \in Named(group)} : ~IsAdd(r)}}
  IN Lookup(b, KeysToLookUp(b, group) \ retracted, level)
DropsRetraction(b, key, level, marks) == FALSE

\* A position of an input is deleted, in a file that the same compaction rewrites.
\* C10.
MarksInputs(b, group, level) ==
  LET keys == UNION {KeysOf(Visible(b, File(e))) : e \in {e \in group : Level(e) = 0}}
      Own(e) == {<<File(e), i>> : i \in {i \in DOMAIN Records(b, File(e)) :
                                          Records(b, File(e))[i].key \in keys}}
  IN Lookup(b, KeysToLookUp(b, group), level) \cup UNION {Own(e) : e \in {e \in group : Level(e) > 0}}

\* An engine that keeps retractions below level 0, and looks their keys up in a later
\* compaction.  Not a fault: the oracle does the same in one of the state graphs.
LooksUpLater(b, group, level) ==
  LET retracted == {r.key : r \in {r \in Rewrite(b, group, 1, {}) : ~IsAdd(r)}}
  IN Lookup(b, KeysToLookUp(b, group) \ (IF \A e \in group : Level(e) = 0 THEN retracted ELSE {}), level)
KeptAboveTheLastLevel(b, key, level, marks) == level < MaxLevel

\* A retraction below level 0 counts as the older row of its key.
RetractionsTakenForRows(b, group) ==
  LET KeysAt(entries) == UNION {KeysOf(Visible(b, File(e))) : e \in entries}
  IN KeysAt({e \in group : Level(e) = 0}) \ KeysAt({e \in group : Level(e) > 0})

\* A lookup uses a cached file without its vector, and finds deleted records.  C7.
StaleLookup(b, keys, level) ==
  UNION {{<<File(e), i>> : i \in {i \in DOMAIN Records(b, File(e)) : Records(b, File(e))[i].key \in keys}}
         : e \in {e \in b.live : Level(e) > level}}

\* Positions are counted from one too many.  B26.
LooksOneTooFar(b, keys, level) == {<<mark[1], mark[2] + 1>> : mark \in StaleLookup(b, keys, level)}

\* A write deletes the positions that it replaces, while its own rows are not yet
\* visible: the DV index file is committed a snapshot before the data.  B44.
MarksWhenWritten(b, f) ==
  b.vectors \cup Lookup(b, KeysOf(Range(Records(b, f))), 0)

\* The same, also in level 0.
MarksLevelZero(b, f) ==
  b.vectors \cup {mark \in Lookup(b, KeysOf(Range(Records(b, f))), -1) : mark[1] # f}

------------------------------ (* rewrites *) -------------------------------
\* Inputs are read without their vectors.  C11.
ReadsAll(b, f) == Range(Records(b, f))

\* The vector of a rewritten file stays in the DV index file.  C6, C10.
KeepsAllVectors(b, rewritten) == b.vectors

\* A rewrite of one file loses the vectors of all others.
DropsAllVectors(b, rewritten) == IF rewritten = {} THEN b.vectors ELSE {}

\* A file that moves by metadata alone loses its vector.
MovesWithoutVectors(b, plan) ==
  LET created == (Len(b.files) + 1)..(Len(b.files) + Len(plan.outputs))
  IN [files   |-> b.files \o [n \in DOMAIN plan.outputs |->
                                [records |-> plan.outputs[n], born |-> plan.level]],
      live    |-> (b.live \ plan.inputs) \cup {<<f, plan.level>> : f \in created \cup plan.upgraded},
      vectors |-> {mark \in plan.vectors : mark[1] \notin plan.upgraded}]

\* A file that moves by metadata alone is listed at its old level as well.
MovesAndStays(b, plan) ==
  LET created == (Len(b.files) + 1)..(Len(b.files) + Len(plan.outputs))
  IN [files   |-> b.files \o [n \in DOMAIN plan.outputs |->
                                [records |-> plan.outputs[n], born |-> plan.level]],
      live    |-> {e \in b.live : e \notin plan.inputs \/ File(e) \in plan.upgraded}
                  \cup {<<f, plan.level>> : f \in created \cup plan.upgraded},
      vectors |-> plan.vectors]

\* A full compaction keeps a large file together with its vector, as Paimon does.
MovedWithItsVector(b, e, pick) == HasRetraction(b, e)

\* A file that holds retractions may move by metadata alone.
MovedWithRetractions(b, e, pick) == pick.full /\ HasVector(b, e)

\* The smallest sequence number wins.
Older(r, s) == r.seq < s.seq

\* Records are stored in the order of the write.
AsTheyCame(S) == [i \in 1..Cardinality(S) |->
                    CHOOSE r \in S : Cardinality({s \in S : s.seq < r.seq}) = i - 1]

\* An upgrade is stored without its level: the file is at level 0 again.
UpgradesToZero(b, plan) ==
  LET created == (Len(b.files) + 1)..(Len(b.files) + Len(plan.outputs))
  IN [files   |-> b.files \o [n \in DOMAIN plan.outputs |->
                                [records |-> plan.outputs[n], born |-> plan.level]],
      live    |-> (b.live \ plan.inputs) \cup {<<f, plan.level>> : f \in created}
                  \cup {<<f, 0>> : f \in plan.upgraded},
      vectors |-> plan.vectors]

\* The output of a rewrite takes the name of one of its inputs.
KeepsTheName(b, plan) ==
  IF Len(plan.outputs) # 1 THEN b
  ELSE LET name == Min(Named(plan.inputs) \ plan.upgraded)
       IN [files   |-> [b.files EXCEPT ![name] = [records |-> plan.outputs[1], born |-> plan.level]],
           live    |-> (b.live \ plan.inputs) \cup {<<f, plan.level>> : f \in {name} \cup plan.upgraded},
           vectors |-> plan.vectors]

------------------------------- (* commits *) -------------------------------
\* Conflicts are not checked: a plan is committed whatever else was.  C14.
NoConflict(b, plan) == ""

\* A write keeps the number with which it began.  C2.
KeepsItsNumber(b, staged) == staged.first

\* Only the numbers of the records that remain are compared.  If a later change of
\* the same key replaced the first change of a write, a number below them is free,
\* and another write may have taken it.  C17.
ComparesWhatIsLeft(b, staged) ==
  LET left == {r.seq : r \in Flush(staged.changes, staged.first)}
  IN IF Min(left) >= NextSequence(b) THEN staged.first ELSE NextSequence(b)

\* A first repair of that, which is not enough: a compaction must not leave an older
\* run behind at level 0.  The other write may be compacted already.
InputGoneOrOlderLeft(b, plan) ==
  \/ ~(plan.inputs \subseteq b.live)
  \/ \E e \in b.live \ plan.inputs, g \in plan.inputs : Level(e) = 0 /\ Level(g) = 0 /\ NewerRun(b, g, e)

\* The compaction of a write is dropped only if the write is renumbered.  Numbers start again
\* when the newest records of a bucket are gone, so that another write may have come
\* between with smaller ones.  C21.
RemainsUnlessRenumbered(b, staged, f) ==
  IF staged.plan # Idle /\ FirstSequence(b, staged) = staged.first
  THEN Renamed(staged.plan, OwnFile, f) ELSE Idle

\* A crash leaves the DV index file that it had already replaced.
LeavesTheIndex(b, work) == [b EXCEPT !.vectors = work.vectors]

------------------------ (* vectors on an old table *) ----------------------
\* Vectors are enabled although keys lie in several levels, as they may without.  C8.
OnFromTheFifthSnapshot(b) == snapshot >= 5

\* As it is right: vectors are enabled from a rewrite of all runs on.
OnAfterAFullCompaction(b) == \E f \in DOMAIN b.files : b.files[f].born = MaxLevel
=============================================================================
