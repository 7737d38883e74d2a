------------------------------- MODULE Bucket ------------------------------
(* One bucket as files: their records, the picks of a compaction, its result, the
   rules of its commit, and reads.  There are constants only.  Every operator is
   a function of a bucket b = [files, live, vectors]:
   * files: every data file ever committed, [records, born].  Its index is its
     name, and born the level that it was written to.  A file never changes.
   * live: the live files of the latest snapshot, pairs <<file, level>>.
   * vectors: the deleted positions, pairs <<file, position>>.
   The records of a file are a sequence ascending by key, and positions are its
   indices: from 1 here, from 0 in the clauses.  In names of operators and of bound
   variables, a `mark` is a deleted position.  Names are those of the Python model
   (mechanism.py, picks.py, deletion_vectors.py).  Faults replace operators. *)
EXTENDS Records

CONSTANTS Vectors,   \* whether the table has deletion vectors
          MaxLevel,  \* the deepest level, num-levels - 1
          Trigger    \* num-sorted-run.compaction-trigger

ASSUME Vectors \in BOOLEAN
ASSUME MaxLevel \in Nat \ {0}
ASSUME Trigger \in Nat \ {0}

VectorsOn(b) == Vectors
File(e) == e[1]
Level(e) == e[2]
Named(entries) == {File(e) : e \in entries}
Records(b, f) == b.files[f].records
Sequences(b, f) == {r.seq : r \in Range(Records(b, f))}
MinKey(b, e) == Records(b, File(e))[1].key
MaxKey(b, e) == Records(b, File(e))[Len(Records(b, File(e)))].key
HasRetraction(b, e) == \E r \in Range(Records(b, File(e))) : ~IsAdd(r)
HasVector(b, e) == \E mark \in b.vectors : mark[1] = File(e)

\* Clauses: DV-1, RD-7.
Visible(b, f) == {Records(b, f)[i] : i \in {i \in DOMAIN Records(b, f) : <<f, i>> \notin b.vectors}}

-------------------------------- (* runs *) --------------------------------
\* Whether one level-0 file is a newer run than another.  Clauses: LSM-4.
NewerRun(b, e, g) ==
  LET s == Sequences(b, File(e))
      t == Sequences(b, File(g))
  IN \/ Max(s) > Max(t)
     \/ (Max(s) = Max(t) /\ Min(s) > Min(t))
     \/ (Max(s) = Max(t) /\ Min(s) = Min(t) /\ File(e) < File(g))

\* The runs of some entries, newest first, each a set.  Clauses: LSM-2, LSM-4, LSM-8.
Runs(b, entries) ==
  LET zero   == {e \in entries : Level(e) = 0}
      levels == {Level(e) : e \in entries} \ {0}
  IN [n \in 1..Cardinality(zero) |->
        {CHOOSE e \in zero : Cardinality({g \in zero \ {e} : NewerRun(b, g, e)}) = n - 1}]
     \o [n \in 1..Cardinality(levels) |->
        LET level == CHOOSE l \in levels : Cardinality({m \in levels : m < l}) = n - 1
        IN {e \in entries : Level(e) = level}]

LevelOf(run) == Level(CHOOSE e \in run : TRUE)
ZeroCount(runs) == Cardinality({n \in DOMAIN runs : LevelOf(runs[n]) = 0})
Taken(runs, n) == UNION {runs[m] : m \in 1..n}

-------------------------------- (* picks *) -------------------------------
\* The pick of the newest n runs.  The first run that is not taken is below level 1, so
\* the output level is never 0: see AllowedPicks.  Clauses: CMP-2, CMP-19.
Take(runs, n) ==
  [entries |-> Taken(runs, n),
   level   |-> IF n = Len(runs) THEN MaxLevel ELSE LevelOf(runs[n + 1]) - 1,
   full    |-> FALSE, purges |-> FALSE]

\* Every pick of universal compaction, for all sizes that the files may have.  All runs of
\* level 0 and 1 are taken (CMP-21).  A pick takes a run of level 0, or two runs, so it is
\* never one file that is at its output level (CMP-8).
\* Clauses: CMP-1 to CMP-6, CMP-8, CMP-18 to CMP-21, CMP-27.
AllowedPicks(b) ==
  LET runs   == Runs(b, b.live)
      zeros  == ZeroCount(runs)
      forced == VectorsOn(b) /\ zeros > 0
      low    == Cardinality({n \in DOMAIN runs : LevelOf(runs[n]) <= 1})
      fewest == CASE Len(runs) > Trigger -> 2
                  [] Len(runs) = Trigger -> IF forced THEN Smaller(2, zeros) ELSE 2
                  [] OTHER -> IF forced THEN zeros ELSE Len(runs) + 1
  IN {Take(runs, n) : n \in Greater(fewest, low)..Len(runs)}

\* Clauses: CMP-7, CMP-22.
FullPicks(b) ==
  LET marked == {e \in b.live : HasVector(b, e)}
      All(entries, purges) == [entries |-> entries, level |-> MaxLevel, full |-> TRUE, purges |-> purges]
  IN CASE \E e \in b.live : Level(e) < MaxLevel -> {All(b.live, FALSE)}
       [] marked # {} -> {All(marked, TRUE)}
       [] OTHER -> {}

Picks(b) == AllowedPicks(b) \cup FullPicks(b)

------------------------ (* rewrites and upgrades *) -------------------------
\* Files whose key ranges overlap, directly or through others.  Clauses: CMP-9.
Sections(b, entries) ==
  LET heads == {MinKey(b, e) : e \in
                 {e \in entries : \A g \in entries : MinKey(b, g) < MinKey(b, e) => MaxKey(b, g) < MinKey(b, e)}}
      From(h) == {e \in entries : MinKey(b, e) >= h}
  IN {From(h) \ UNION {From(i) : i \in {i \in heads : i > h}} : h \in heads}

\* The files that are alone in their section.  Each of them may be large or small.
Lone(b, pick) == {e \in pick.entries : {e} \in Sections(b, pick.entries)}

\* Clauses: CMP-11, CMP-25, DV-13.
MustBeRewritten(b, e, pick) ==
  \/ /\ HasRetraction(b, e)
     /\ ((VectorsOn(b) /\ Level(e) = 0) \/ pick.level = MaxLevel)
  \/ (pick.full /\ HasVector(b, e))

\* Small files are rewritten with their neighbours up to the next large one.  A file
\* that is left alone is upgraded if that is allowed.  Clauses: CMP-9, CMP-10, CMP-11, CMP-23, CMP-24.
Division(b, pick, large) ==
  LET Between(e, g) == {h \in large : \/ MinKey(b, e) < MinKey(b, h) /\ MinKey(b, h) < MinKey(b, g)
                                      \/ MinKey(b, g) < MinKey(b, h) /\ MinKey(b, h) < MinKey(b, e)}
      small  == pick.entries \ large
      groups == {{g \in small : Between(e, g) = {}} : e \in small} \cup {{e} : e \in large}
      Alone(group) == Cardinality(group) = 1
      Must(group) == \A e \in group : MustBeRewritten(b, e, pick)
      whole  == {e \in pick.entries : {e} \in groups /\ ~Must({e}) /\ Level(e) # pick.level}
  IN IF pick.purges
     THEN [rewrites |-> {{e} : e \in pick.entries}, upgrades |-> {}]
     ELSE [rewrites |-> {group \in groups : ~Alone(group) \/ Must(group)}, upgrades |-> whole]

--------------------------- (* deletion vectors *) --------------------------
\* The records that a compaction reads of a file.  Clauses: CMP-12.
InputRecords(b, f) == Visible(b, f)

\* The positions of the live records of some keys at levels deeper than `level`.
\* Clauses: DV-6, DV-9.
Lookup(b, keys, level) ==
  UNION {{<<File(e), i>> : i \in {i \in DOMAIN Records(b, File(e)) :
            Records(b, File(e))[i].key \in keys /\ <<File(e), i>> \notin b.vectors}}
         : e \in {e \in b.live : Level(e) > level}}

\* The keys to look up.  A key is looked up if a record of it comes from level 0 or is
\* a retraction, and no input of a deeper level has a live add of it.  If one has, that
\* record is merged here (DV-8).  Any other add was looked up when it left level 0
\* (DV-7).  A retraction is below level 0 in tables of others only, and is looked up
\* again before it is dropped.  Clauses: DV-6, DV-7, DV-8.
KeysToLookUp(b, group) ==
  LET In(entries) == UNION {Visible(b, File(e)) : e \in entries}
      deeper == In({e \in group : Level(e) > 0})
  IN KeysOf(In({e \in group : Level(e) = 0}) \cup {r \in deeper : ~IsAdd(r)}) \ KeysOf({r \in deeper : IsAdd(r)})

\* The positions that a compaction deletes.  Clauses: DV-6, DV-7, DV-8, DV-9.
Marks(b, group, level) == Lookup(b, KeysToLookUp(b, group), level)

\* Whether an older record of a retracted key could become visible again.  Clauses: CMP-13.
KeepsRetraction(b, key, level, marks) ==
  IF VectorsOn(b)
  THEN Lookup([b EXCEPT !.vectors = @ \cup marks], {key}, level) # {}
  ELSE \E e \in b.live : Level(e) > level

\* The records of other files that take part in the merge of a group.  None: they
\* are older, and the newest wins.  Module ValueLookup has another answer.
LookedUp(b, group, level) == {}

\* The records that a rewrite leaves of a group.  Clauses: CMP-12, CMP-13, MRG-1.
Rewrite(b, group, level, marks) ==
  LET runs   == Runs(b, group)
      merged == Merge([n \in DOMAIN runs |-> UNION {InputRecords(b, f) : f \in Named(runs[n])}]
                      \o <<LookedUp(b, group, level)>>)
  IN {r \in merged : IsAdd(r) \/ KeepsRetraction(b, r.key, level, marks)}

\* The deleted positions that stay after a compaction, without the new ones.  Clauses: DV-10, DV-11, DV-17.
KeptVectors(b, rewritten) == {mark \in b.vectors : mark[1] \notin rewritten}

\* The output of one rewrite, cut into files.  Here it is never cut.  Clauses: CMP-15, CMP-26.
Rolled(records) == <<records>>

RECURSIVE Concatenated(_)
Concatenated(seqs) == IF seqs = <<>> THEN <<>> ELSE Head(seqs) \o Concatenated(Tail(seqs))

----------------------------- (* compaction *) ------------------------------
\* The effect of a compaction, which is decided when it is planned.  `vectors` are all
\* deleted positions of the bucket after it, `base` those that it was planned on.
\* Clauses: CMP-9, CMP-10, CMP-12, CMP-24, DV-6, DV-10, DV-14, DV-17.
Plan(b, pick, large) ==
  LET division  == Division(b, pick, large)
      rewritten == UNION division.rewrites
      groups    == division.rewrites \cup {{e} : e \in division.upgrades}
      marks     == IF VectorsOn(b) THEN UNION {Marks(b, group, pick.level) : group \in groups} ELSE {}
      FirstKey(group) == Min({MinKey(b, e) : e \in group})
      Nth(n)    == CHOOSE group \in division.rewrites :
                     Cardinality({g \in division.rewrites : FirstKey(g) < FirstKey(group)}) = n - 1
      Outputs(n) == Rolled(Ascending(Rewrite(b, Nth(n), pick.level, marks)))
  IN [kind     |-> "compaction",
      inputs   |-> rewritten \cup division.upgrades,
      level    |-> pick.level,
      upgraded |-> Named(division.upgrades),
      outputs  |-> SelectSeq(Concatenated([n \in 1..Cardinality(division.rewrites) |-> Outputs(n)]),
                             LAMBDA records : records # <<>>),
      vectors  |-> KeptVectors(b, Named(rewritten)) \cup marks,
      base     |-> b.vectors]

\* Every compaction that may be planned.  It changes something.
\* Clauses: CMT-2.
Plans(b) ==
  {plan \in UNION {{Plan(b, pick, large) : large \in SUBSET Lone(b, pick)} : pick \in Picks(b)} : plan.inputs # {}}

\* The bucket after a compaction.  Clauses: CMP-10, DV-14.
Compacted(b, plan) ==
  LET created == (Len(b.files) + 1)..(Len(b.files) + Len(plan.outputs))
  IN [files   |-> b.files \o [n \in DOMAIN plan.outputs |->
                                [records |-> plan.outputs[n], born |-> plan.level]],
      live    |-> (b.live \ plan.inputs) \cup {<<f, plan.level>> : f \in created \cup plan.upgraded},
      vectors |-> plan.vectors]

-------------------------------- (* writes *) -------------------------------
\* The first number above those of every live file.  Clauses: LSM-10, CMT-10.
NextSequence(b) == Max({-1} \cup UNION {Sequences(b, f) : f \in Named(b.live)}) + 1

\* The first number of a staged write when it commits: renumbered if another write
\* committed first.  The first number that it assigned is compared, even if the
\* record that received it was replaced in the same write.
\* Clauses: CMT-10, CMT-18, CMT-24.
FirstSequence(b, staged) == Greater(staged.first, NextSequence(b))

\* A write deletes no positions.  Clauses: CMT-6.
VectorsAfterWrite(b, f) == b.vectors

\* The bucket after a write.  Clauses: CMT-2, CMT-6, LSM-1, LSM-8.
Written(b, changes, first) ==
  LET f == Len(b.files) + 1
      after == [b EXCEPT !.files = Append(@, [records |-> Ascending(Flush(changes, first)), born |-> 0]),
                         !.live = @ \cup {<<f, 0>>}]
  IN [after EXCEPT !.vectors = VectorsAfterWrite(after, f)]

\* The file of a staged write.  It gets its name with the commit.
OwnFile == 0
Renamed(plan, old, new) ==
  LET Name(f) == IF f = old THEN new ELSE f
  IN [plan EXCEPT !.inputs = {<<Name(File(e)), Level(e)>> : e \in @}, !.upgraded = {Name(f) : f \in @}]

\* The work of a job that has none.
Idle == [kind |-> "idle"]

\* Every compaction that a staged write may plan of the file that it will add.  Clauses: CMT-2, CMP-17.
OwnPlans(b, changes, first) ==
  LET after == Written(b, changes, first)
  IN {Renamed(plan, Len(after.files), OwnFile) : plan \in Plans(after)}

\* A staged write.  With a plan it has the live files that the plan was made on.
Staged(b, changes, plan) == [kind |-> "write", changes |-> changes, first |-> NextSequence(b), plan |-> plan,
                             on |-> IF plan = Idle THEN {} ELSE b.live]

\* The work that remains of a staged write after it is committed as file f: the
\* compaction it planned, unless other files were live before.  Clauses: CMT-33, CMT-54.
Remaining(b, staged, f) ==
  IF staged.plan # Idle /\ staged.on = b.live THEN Renamed(staged.plan, OwnFile, f) ELSE Idle

-------------------------------- (* commit *) -------------------------------
\* An input is no longer live, or is at another level.  Clauses: CMT-7.
InputGone(b, plan) == ~(plan.inputs \subseteq b.live)
\* Positions that another compaction deleted would be lost.  Clauses: CMT-8.
VectorsChanged(b, plan) == plan.base # b.vectors
\* A deletion vector would name a file that is not live.  Clauses: CMT-9.
TargetGone(b, plan) == LET after == Compacted(b, plan)
                       IN ~({mark[1] : mark \in after.vectors} \subseteq Named(after.live))
\* Two files of one level would overlap.  Clauses: CMT-11.
Overlapping(b) == \E e, g \in b.live : e # g /\ Level(e) = Level(g) /\ Level(e) > 0
                    /\ MinKey(b, e) <= MinKey(b, g) /\ MinKey(b, g) <= MaxKey(b, e)
LevelClash(b, plan) == Overlapping(Compacted(b, plan))

\* The reason that forbids a commit, "" if there is none.  Clauses: CMT-7, CMT-8, CMT-9, CMT-11.
Conflict(b, plan) ==
  CASE InputGone(b, plan)      -> "input gone"
    [] VectorsChanged(b, plan) -> "vectors changed"
    [] TargetGone(b, plan)     -> "target gone"
    [] LevelClash(b, plan)     -> "level clash"
    [] OTHER                   -> ""

--------------------------------- (* reads *) -------------------------------
Merged(b, entries) ==
  LET runs == Runs(b, entries)
  IN {r \in Merge([n \in DOMAIN runs |-> UNION {Visible(b, f) : f \in Named(runs[n])}]) : IsAdd(r)}

\* The records of a fresh read: all runs, merged.  Clauses: RD-3, RD-4, MRG-3.
FreshRead(b) == Merged(b, b.live)

\* The positions of live records above level 0.
DeeperPositions(b) ==
  UNION {{<<f, i>> : i \in {i \in DOMAIN Records(b, f) : <<f, i>> \notin b.vectors}}
         : f \in Named({e \in b.live : Level(e) > 0})}

\* The records of a default read.  With deletion vectors it leaves out level 0, and it
\* merges nothing unless there are retractions above level 0.  Clauses: RD-1, RD-4, RD-5.
PlainRead(b) ==
  LET deeper  == {e \in b.live : Level(e) > 0}
      records == UNION {Visible(b, f) : f \in Named(deeper)}
  IN IF ~VectorsOn(b) THEN FreshRead(b)
     ELSE IF \A r \in records : IsAdd(r) THEN records ELSE Merged(b, deeper)

\* The fold of the writes among the first `count` files.  Clauses: TBL-7.
Fold(b, count) ==
  LET writes    == SelectSeq([f \in 1..count |-> f], LAMBDA f : b.files[f].born = 0)
      In(f)     == Range(Records(b, f))
      Of(key)   == SelectSeq(writes, LAMBDA f : key \in KeysOf(In(f)))
      All(key)  == [n \in DOMAIN Of(key) |-> CHOOSE r \in In(Of(key)[n]) : r.key = key]
      keys      == UNION {KeysOf(In(f)) : f \in Range(writes)}
  IN {r \in {Folded(All(key)) : key \in keys} : IsAdd(r)}

\* Records as a reader sees them: without their kinds, of which it sees adds only.
Seen(records) == {[key |-> r.key, seq |-> r.seq, row |-> r.row] : r \in records}

\* How many files are older than every live level-0 file: the writes among them are
\* absorbed.  Clauses: RD-2.
AbsorbedCount(b) == Min({Len(b.files) + 1} \cup Named({e \in b.live : Level(e) = 0})) - 1

-------------------------------- (* types *) --------------------------------
Entry == Nat \X (0..MaxLevel)
Mark == Nat \X (Nat \ {0})
StoredFile == [records : Seq(Record), born : 0..MaxLevel]
BucketState == [files : Seq(StoredFile), live : SUBSET Entry, vectors : SUBSET Mark]

\* The work that a job may have staged.  The inputs may include OwnFile, which is 0.
Compaction == [kind : {"compaction"}, inputs : SUBSET Entry, level : 0..MaxLevel, upgraded : SUBSET Nat,
               outputs : Seq(Seq(Record)), vectors : SUBSET Mark, base : SUBSET Mark]
StagedWrite == [kind : {"write"}, changes : Seq(Change), first : Nat, plan : {Idle} \cup Compaction,
                on : SUBSET Entry]
Work == {Idle} \cup StagedWrite \cup Compaction

------------------------------- (* invariants *) ----------------------------
\* They are about one snapshot.  DeletionVectors and Commit check them in all.
\* Clauses: LSM-1.
KeysAscendInFiles(b) == \A f \in DOMAIN b.files : \A i \in 1..(Len(Records(b, f)) - 1) :
                          Records(b, f)[i].key < Records(b, f)[i + 1].key
\* Clauses: LSM-2, LSM-3, CMT-11.
LevelsHoldRuns(b) == /\ \A e \in b.live : Level(e) \in 0..MaxLevel
                     /\ Cardinality(Named(b.live)) = Cardinality(b.live)
                     /\ ~Overlapping(b)
\* Clauses: DV-2.
MarksInRange(b) == \A mark \in b.vectors : mark[2] \in DOMAIN Records(b, mark[1])
\* Clauses: DV-3.
ZeroUnmarked(b) == \A mark \in b.vectors : <<mark[1], 0>> \notin b.live
\* Clauses: DV-4.
MarksNameLive(b) == \A mark \in b.vectors : mark[1] \in Named(b.live)
\* Clauses: DV-12.
KeysLiveOnce(b) ==
  LET positions == DeeperPositions(b)
  IN IF VectorsOn(b)
     THEN Cardinality(positions) = Cardinality({Records(b, p[1])[p[2]].key : p \in positions})
     ELSE b.vectors = {}
\* Clauses: LSM-4, LSM-6.
NewerRunsNewer(b) ==
  LET runs == Runs(b, b.live)
      In(n) == UNION {Visible(b, f) : f \in Named(runs[n])}
  IN \A m, n \in DOMAIN runs : m < n =>
       \A r \in In(m), s \in In(n) : r.key = s.key => r.seq > s.seq
\* Clauses: RD-3, RD-4, TBL-7.
FreshIsFold(b) == Seen(FreshRead(b)) = Seen(Fold(b, Len(b.files)))
\* A default read finds the right records; two of one key would differ in their numbers.
\* Clauses: RD-1, RD-2, RD-15.
PlainIsAbsorbedFold(b) == VectorsOn(b) => Seen(PlainRead(b)) = Seen(Fold(b, AbsorbedCount(b)))

\* A full compaction leaves no deletion vector, whatever files are large.  Clauses: DV-13, CMP-25.
FullLeavesNoMark(b) ==
  VectorsOn(b) => \A pick \in FullPicks(b) : \A large \in SUBSET Lone(b, pick) : Plan(b, pick, large).vectors = {}

\* Retractions lie where something older may be below them: at level 0, and without
\* deletion vectors at the levels above the greatest one.  Clauses: CMP-11, CMP-13.
RetractionsHigh(b) ==
  \A e \in b.live : HasRetraction(b, e) => Level(e) = 0 \/ (~VectorsOn(b) /\ Level(e) < MaxLevel)

\* The row before a change, for a changelog: the older record among the inputs, or
\* the one that is looked up.  It is the row that a default read shows.
\* Clauses: DV-8, DV-9, RD-1.
BeforeIsVisible(b) ==
  VectorsOn(b) =>
  \A pick \in Picks(b) :
    \A key \in UNION {KeysOf(Visible(b, File(e))) : e \in {e \in pick.entries : Level(e) = 0}} :
      LET input == {r \in UNION {Visible(b, File(e)) : e \in {e \in pick.entries : Level(e) > 0}} : r.key = key}
          found == {Records(b, p[1])[p[2]] : p \in Lookup(b, {key}, pick.level)}
      IN (IF input # {} THEN input ELSE found) = {r \in PlainRead(b) : r.key = key}
=============================================================================
