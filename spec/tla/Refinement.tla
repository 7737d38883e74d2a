----------------------------- MODULE Refinement ----------------------------
(* DeletionVectors refines Levels and Table: the mapping, for TLC to check.

   The variable `seen` holds the values of the variables of Levels and Table.  It
   is a function of the other variables, so it adds no states.  It is a variable
   because TLC would otherwise compute the mapping again at each mention.   *)
EXTENDS DeletionVectors

VARIABLE seen  \* [runs, rows, absorbed, waiting]: the variables of Levels and Table, see there

\* For Levels, a file is its live records, and a run without live records does not
\* exist.
RunsOf(b) ==
  LET runs == Runs(b, b.live)
      Run(n) == [level |-> LevelOf(runs[n]), records |-> UNION {Visible(b, f) : f \in Named(runs[n])}]
  IN SelectSeq([n \in DOMAIN runs |-> Run(n)], LAMBDA run : run.records # {})

\* For Table, a bucket is the rows that reads return, and the writes in level 0.
WaitingOf(b) ==
  LET runs == Runs(b, {e \in b.live : Level(e) = 0})
      Nth(n) == File(CHOOSE e \in runs[Len(runs) + 1 - n] : TRUE)
  IN [n \in DOMAIN runs |-> AsWrite(Range(Records(b, Nth(n))))]

See(b) == [runs |-> RunsOf(b), rows |-> AsTable(FreshRead(b)),
           absorbed |-> AsTable(PlainRead(b)), waiting |-> WaitingOf(b)]

RefinementSpec == /\ Init /\ seen = See(Now)
                  /\ [][Next /\ seen' = See(Later)]_<<vars, seen>>

Above == INSTANCE Levels WITH runs <- seen.runs, CommitLimit <- 0
\* Clauses: LSM-2, LSM-4, LSM-6, LSM-8, CMP-1, CMP-13, CMP-14.
RefinesLevels == Above!Spec

Meaning == INSTANCE Table WITH
  rows <- seen.rows, absorbed <- seen.absorbed, waiting <- seen.waiting
SeenTypeOK == /\ DOMAIN seen = {"runs", "rows", "absorbed", "waiting"}
              /\ Above!TypeOK /\ Meaning!TypeOK

\* Clauses: TBL-7, RD-2, RD-3, RD-15, CMP-14.
RefinesTable == Meaning!Spec
=============================================================================
