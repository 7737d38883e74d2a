--------------------------- MODULE StoreTraceData ---------------------------
(* An example of the traces that module StoreTraces reads: a commit, whose put has no answer
   and is read back.  See TraceData.                                              *)
Traces ==
  << [expired |-> 1, latest |-> 2, events |->
      << [action |-> "Begin", job |-> "j1", files |-> {2}],
         [action |-> "Prepare", job |-> "j1", base |-> 2, epoch |-> 0, files |-> {2}],
         [action |-> "Send", job |-> "j1", id |-> 3, files |-> {2}],
         [action |-> "ArriveFree", job |-> "j1", answer |-> FALSE, files |-> {2, 3}],
         [action |-> "ReadBack", job |-> "j1", saw |-> "mine", files |-> {2, 3}],
         [action |-> "Tell", job |-> "j1", files |-> {2, 3}] >>] >>
=============================================================================
