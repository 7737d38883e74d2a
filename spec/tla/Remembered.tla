----------------------------- MODULE Remembered ----------------------------
(* DeletionVectors with `sequence.field`, where deletions are remembered.

   A retraction that wins stays in a file, at every level.  With deletion vectors the
   vector of its own file deletes it: no reader sees it, and every merge does.  A
   compaction compares what it has of a key with all rows of the key that lie deeper,
   deleted ones too.  If one of these is newer, the key is left out.  A model replaces
   operators of Bucket by these.  Clauses: MRG-19, MRG-21, DV-21 to DV-23.       *)
EXTENDS UserSequence

\* Whether a vector deletes more than retractions that are remembered.  Clauses: CMP-22.
HasReplacedRow(b, e) == \E mark \in b.vectors : mark[1] = File(e) /\ IsAdd(Records(b, mark[1])[mark[2]])

\* The records that a merge reads of a file.  Clauses: DV-22.
WithRetractions(b, f) == Visible(b, f) \cup {r \in Range(Records(b, f)) : ~IsAdd(r)}

\* One record of each key of some live files.
NewestOf(b, entries) ==
  LET runs == Runs(b, entries)
  IN Merge([n \in DOMAIN runs |-> UNION {InputRecords(b, f) : f \in Named(runs[n])}])

MergedWithRetractions(b, entries) == {r \in NewestOf(b, entries) : IsAdd(r)}

\* The rows of a lookup that are compared: those that are deleted too.  Clauses: DV-23.
Compared(b, f) == Range(Records(b, f))

\* The keys of which a deeper file holds a newer record.  Clauses: DV-23.
LateKeys(b, group, level) ==
  LET deeper == UNION {Compared(b, File(e)) : e \in {e \in b.live : VectorsOn(b) /\ Level(e) > level}}
  IN KeysOf({r \in NewestOf(b, group) : \E s \in deeper : s.key = r.key /\ Newer(s, r)})

\* Clauses: DV-6, DV-23.
MarksUnlessLate(b, group, level) == Lookup(b, KeysToLookUp(b, group) \ LateKeys(b, group, level), level)

\* Clauses: MRG-21.
AlwaysKept(b, key, level, marks) == TRUE

\* Clauses: CMP-12, CMP-13, DV-22, DV-23.
RewriteUnlessLate(b, group, level, marks) ==
  LET late == LateKeys(b, group, level)
  IN {r \in NewestOf(b, group) : r.key \notin late /\ (IsAdd(r) \/ KeepsRetraction(b, r.key, level, marks))}

\* A file with retractions leaves level 0 by a rewrite, which deletes them; and so does
\* one that a deeper file may hold newer records of.  Clauses: CMP-11, CMP-25, DV-20.
RewrittenToCompare(b, e, pick) ==
  \/ (VectorsOn(b) /\ Level(e) = 0 /\ (pick.level < MaxLevel \/ HasRetraction(b, e)))
  \/ (pick.full /\ HasVector(b, e))

\* Clauses: CMP-10, DV-14, DV-21.
CompactedAndHidden(b, plan) ==
  LET created == (Len(b.files) + 1)..(Len(b.files) + Len(plan.outputs))
      all     == b.files \o [n \in DOMAIN plan.outputs |-> [records |-> plan.outputs[n], born |-> plan.level]]
      In(f)   == {i \in DOMAIN all[f].records : VectorsOn(b) /\ ~IsAdd(all[f].records[i])}
  IN [files   |-> all,
      live    |-> (b.live \ plan.inputs) \cup {<<f, plan.level>> : f \in created \cup plan.upgraded},
      vectors |-> plan.vectors \cup UNION {{<<f, i>> : i \in In(f)} : f \in created}]

------------------------------- (* invariants *) ----------------------------
\* Clauses: DV-21.
RetractionsAreHidden ==
  Vectors => \A e \in live : \A i \in DOMAIN Records(Now, File(e)) :
               Level(e) = 0 \/ IsAdd(Records(Now, File(e))[i]) \/ <<File(e), i>> \in vectors

------------------------------- (* done wrong *) -----------------------------
\* A lookup passes over rows that are deleted, and so over what was remembered.
OnlyLive(b, f) == Visible(b, f)

\* A row that lies deeper is taken for older.
NeverLate(b, group, level) == {}

\* A file leaves level 0 by metadata alone, late records in it.
RewrittenForRetractions(b, e, pick) ==
  \/ (VectorsOn(b) /\ Level(e) = 0 /\ HasRetraction(b, e))
  \/ (pick.full /\ HasVector(b, e))

\* A rewrite forgets what it reads a second time: retractions that are deleted.
ForgottenWhenRewritten(b, group, level, marks) ==
  {r \in RewriteUnlessLate(b, group, level, marks) :
     IsAdd(r) \/ r \in UNION {Visible(b, f) : f \in Named(group)}}
=============================================================================
