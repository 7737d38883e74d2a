----------------------------- MODULE TraceData -----------------------------
(* An example of the traces that module Traces reads: a write, and a compaction that
   takes it.  It is not a constant of Traces, because TLC would evaluate a constant
   again at each mention.                                                   *)
Row == [key |-> 1, seq |-> 0, kind |-> "+I", row |-> 1]
Traces ==
  << << [action |-> "Write", job |-> "", snapshot |-> 1, live |-> {<<1, 0>>}, vectors |-> {},
         created |-> << <<Row>> >>, rows |-> {}, count |-> 0],
        [action |-> "PlanCompaction", job |-> "c1", snapshot |-> 1, live |-> {<<1, 0>>}, vectors |-> {},
         created |-> <<>>, rows |-> {}, count |-> 0,
         ends |-> "CommitCompaction", outputs |-> <<>>, upgraded |-> {1}, gone |-> {}],
        [action |-> "CommitCompaction", job |-> "c1", snapshot |-> 2, live |-> {<<1, 2>>}, vectors |-> {},
         created |-> <<>>, rows |-> {<<1, 1>>}, count |-> 1] >> >>
=============================================================================
