------------------------------ MODULE LogChain -----------------------------
(* The indexes of the log files of one file group, over cliques, compactions, cleans
   and files that are lost.

   Log files are numbers, in the order in which they are written.  A compaction is
   planned at a file: the slice that begins with it is read together with the one
   before until the compaction is complete.  A clean deletes the files of earlier
   slices.

   The index of a file has members, which are the other files of its clique, and a
   pointer to the last file of the clique before.  A lookup visits the files that no
   index has as members, and expects every file that their indexes name.

   The subtle case: a file that is named and not there may have been compacted and
   cleaned, or may be lost.  *)
EXTENDS Naturals, FiniteSets

CONSTANTS CliqueFiles,    \* at how many files a clique is full
          LogLimit,       \* how many log files there are
          PlansAfter,     \* the numbers of files after which a compaction may be planned
          CompletesAfter, \* the same for its end
          LossLimit       \* how many files are lost

VARIABLES written, \* the number of log files that were written
          begin,   \* the first log file of the slice
          planned, \* the first log file of the slice of a planned compaction, 0 without
          there,   \* the set of log files that are there
          index,   \* a function from log file to its index
          lost     \* the set of log files that are lost

ASSUME CliqueFiles \in Nat
ASSUME LogLimit \in Nat
ASSUME PlansAfter \subseteq Nat
ASSUME CompletesAfter \subseteq Nat
ASSUME LossLimit \in Nat

vars == <<written, begin, planned, there, index, lost>>

Logs == 1..LogLimit
NoIndex == [slice |-> 0, members |-> {}, chain |-> 0, covers |-> {}]

-------------------------------- (* types *) --------------------------------
TypeOK == /\ written \in 0..LogLimit
          /\ begin \in 1..(LogLimit + 1)
          /\ planned \in 0..(LogLimit + 1)
          /\ there \in SUBSET Logs
          /\ index \in [Logs -> [slice : 0..(LogLimit + 1), members : SUBSET Logs, chain : 0..LogLimit,
                                 covers : SUBSET Logs]]
          /\ lost \in SUBSET Logs

------------------------------- (* indexes *) -------------------------------
InSlice == {log \in there : log >= begin}
Head == CHOOSE log \in InSlice : \A other \in InSlice : other <= log

\* Whether the index of a file is that of the slice.  Clauses: LOG-46.
MayExtend(log) == index[log].slice = begin

\* Clauses: LOG-48.
HasRoom(log) == Cardinality(index[log].members) + 1 < CliqueFiles

\* The pointer of a new clique.  Clauses: LOG-79.
Before(log) == log

\* The index of the next file.  ``covers`` has what members and pointers lead to.  Clauses: LOG-45.
NextIndex ==
  IF InSlice = {} \/ ~MayExtend(Head)
  THEN [slice |-> begin, members |-> InSlice, chain |-> 0, covers |-> InSlice]
  ELSE LET known == index[Head]
           all == known.covers \cup {Head}
           pointer == Before(Head)
       IN IF HasRoom(Head)
          THEN [known EXCEPT !.slice = begin, !.members = @ \cup {Head}, !.covers = all]
          ELSE [slice |-> begin, members |-> {}, chain |-> pointer, covers |-> IF pointer = 0 THEN {} ELSE all]

------------------------------- (* looking up *) ----------------------------
Visited == {log \in InSlice : ~\E other \in InSlice : log \in index[other].members}
Named(log) == index[log].members \cup ({index[log].chain} \ {0})

\* Whether a file is part of the slice, by its commit and not by its presence.  Clauses: LOG-44.
Belongs(log) == log >= begin

IsDamaged == \E log \in Visited : \E other \in Named(log) \ there : Belongs(other)

------------------------------- (* stepping *) ------------------------------
\* A writer looks keys up first, which fails if the file group is damaged.
Write == /\ written < LogLimit /\ ~IsDamaged
         /\ written' = written + 1
         /\ there' = there \cup {written + 1}
         /\ index' = [index EXCEPT ![written + 1] = NextIndex]
         /\ UNCHANGED <<begin, planned, lost>>

Plan == /\ planned = 0 /\ written >= begin /\ written \in PlansAfter
        /\ planned' = written + 1
        /\ UNCHANGED <<written, begin, there, index, lost>>

Complete == /\ planned # 0 /\ written \in CompletesAfter
            /\ begin' = planned
            /\ planned' = 0
            /\ UNCHANGED <<written, there, index, lost>>

Clean == /\ there # InSlice
         /\ there' = InSlice
         /\ UNCHANGED <<written, begin, planned, index, lost>>

Lose == /\ Cardinality(lost) < LossLimit
        /\ \E log \in InSlice : /\ there' = there \ {log}
                                /\ lost' = lost \cup {log}
        /\ UNCHANGED <<written, begin, planned, index>>

Init == /\ written = 0 /\ begin = 1 /\ planned = 0 /\ there = {} /\ lost = {}
        /\ index = [log \in Logs |-> NoIndex]

Next == Write \/ Plan \/ Complete \/ Clean \/ Lose

ChainSpec == Init /\ [][Next]_vars

------------------------------ (* invariants *) -----------------------------
\* Of what was compacted and cleaned nothing is missed.  Clauses: LOG-44.
NoFalseAlarm == lost = {} => ~IsDamaged

\* A file that an index leads to is missed.  Clauses: LOG-44.
LossIsNoticed == \A log \in lost :
                   log >= begin /\ (\E other \in InSlice : log \in index[other].covers) => IsDamaged

\* The index that is made after a compaction has the keys of its slice only.  Clauses: LOG-46.
RangeNarrows == \A log \in InSlice : index[log].slice = begin => index[log].covers \subseteq begin..written

\* One read leads to all files of the slice.  Clauses: LOG-45, LOG-79.
ChainIsWhole == InSlice = {} \/ InSlice \ {Head} \subseteq index[Head].covers
=============================================================================
