----------------------------- MODULE Refinement ----------------------------
(* DeletionVectors refines Levels and Table: the mapping, for TLC to check.

   `seen` is what the two see of a bucket.  It is a function of the other
   variables, so it adds no states; it is a variable because TLC would compute
   the mapping anew wherever it is mentioned.                               *)
EXTENDS DeletionVectors

VARIABLE seen  \* [runs, rows, absorbed, waiting]: the variables of Levels and Table

\* Seen from Levels a file is the records its vector leaves, and a run that is
\* hidden whole is none.
RunsOf(b) ==
  LET runs == Runs(b, b.live)
      Run(n) == [level |-> LevelOf(runs[n]), records |-> UNION {Visible(b, f) : f \in Named(runs[n])}]
  IN SelectSeq([n \in DOMAIN runs |-> Run(n)], LAMBDA run : run.records # {})

\* Seen from Table it is what reads return, and the level-0 files not yet read.
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
