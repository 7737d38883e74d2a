---------------------------- MODULE FenceNumbers ---------------------------
(* Fences under numbers that become free again.

   StoreOperations takes fences for files that stay.  Here old ones are removed, by
   anyone and at any time, so the number of a removed fence is free.  A process that has
   slept since before can put a fence there, although it knows none of those that came
   after.

   So a process looks at the newest fence after its put, and also after it has read an
   older fence.  A fence that is older than the newest by Kept numbers or more counts
   for nobody.  A process that finds its own fence so old has either been slow to look,
   and then the newest fence has taken over what it says, or it was too late.

   The subtle case: a fence that was put too late is there until its process looks, or
   for ever if the process dies.  Nobody who reads it may believe it.

   Each fence says what all before it said, and one thing more: the process and its
   attempt.  So the true fences are the values of a sequence, which only grows: that
   sequence is what StoreOperations has.                                             *)
EXTENDS Naturals, Sequences, FiniteSets

CONSTANTS Putters,   \* the set of processes that put fences
          Askers,    \* the set of processes that read older fences
          Kept,      \* how many fences count
          AttemptLimit  \* how often a process begins to put a fence

VARIABLES true,      \* the sequence of the fences that were put in time: what each adds
          there,     \* a function from the numbers that have a file to what the file says, a set
          putting,   \* a function from putter to its phase, the number and the text of the fence it read, and its attempt
          asking,    \* a function from asker to its phase, the number that it read, and what that says
          mistaken   \* whether a process has drawn a mistaken conclusion

ASSUME IsFiniteSet(Putters) /\ IsFiniteSet(Askers) /\ Putters \cap Askers = {}
ASSUME Kept \in Nat \ {0}
ASSUME AttemptLimit \in Nat

vars == <<true, there, putting, asking, mistaken>>

Said == [by : Putters, attempt : Nat]
Phases == {"idle", "decided", "looking"}

TypeOK == /\ true \in Seq(Said)
          /\ DOMAIN there \subseteq Nat \ {0} /\ \A n \in DOMAIN there : there[n] \subseteq Said
          /\ DOMAIN putting = Putters
          /\ \A p \in Putters : /\ DOMAIN putting[p] = {"phase", "number", "known", "attempt"}
                                /\ putting[p].phase \in Phases /\ putting[p].number \in Nat
                                /\ putting[p].known \subseteq Said /\ putting[p].attempt \in Nat
          /\ DOMAIN asking = Askers
          /\ \A a \in Askers : /\ DOMAIN asking[a] = {"phase", "number", "says"}
                               /\ asking[a].phase \in Phases /\ asking[a].number \in Nat
                               /\ asking[a].says \subseteq Said
          /\ mistaken \in BOOLEAN

Newest == IF DOMAIN there = {} THEN 0 ELSE CHOOSE n \in DOMAIN there : \A m \in DOMAIN there : m <= n
Says(n) == IF n = 0 THEN {} ELSE there[n]

\* The text of the true fence of a number.
Truth(n) == {true[m] : m \in 1..n}

\* Whether a fence counts no more.  Clauses: CMT-57.
IsOld(n) == n + Kept <= Newest

Set(p, phase, number, known) ==
  putting' = [putting EXCEPT ![p] = [@ EXCEPT !.phase = phase, !.number = number, !.known = known]]
Again(p) == putting' = [putting EXCEPT ![p] = [phase |-> "idle", number |-> 0, known |-> {}, attempt |-> @.attempt + 1]]
Mine(p) == [by |-> p, attempt |-> putting[p].attempt]

--------------------------------- (* puts *) --------------------------------
\* Read the newest fence, and decide.
Decide(p) == /\ putting[p].phase = "idle" /\ putting[p].attempt < AttemptLimit
             /\ Set(p, "decided", Newest, Says(Newest))
             /\ UNCHANGED <<true, there, asking, mistaken>>

\* Put the next fence if it is absent, or decide again.  It is a true one if its number was never taken.
\* Clauses: CMT-44.
PutNext(p) ==
  LET n == putting[p].number + 1
  IN /\ putting[p].phase = "decided"
     /\ IF n \in DOMAIN there
        THEN Again(p) /\ UNCHANGED <<true, there>>
        ELSE /\ there' = [m \in DOMAIN there \cup {n} |-> IF m = n THEN putting[p].known \cup {Mine(p)} ELSE there[m]]
             /\ true' = IF n > Len(true) THEN Append(true, Mine(p)) ELSE true
             /\ Set(p, "looking", n, {})
     /\ UNCHANGED <<asking, mistaken>>

\* Whether a process may take its fence for a true one.  Clauses: CMT-57.
IsTrue(p) == IF IsOld(putting[p].number) THEN Mine(p) \in Says(Newest) ELSE TRUE

\* Conclude.  A fence that was put too late is removed by its process.
Look(p) ==
  LET isTrue == \E n \in DOMAIN true : true[n] = Mine(p)
  IN /\ putting[p].phase = "looking"
     /\ Again(p)
     /\ there' = IF IsTrue(p) THEN there ELSE [m \in DOMAIN there \ {putting[p].number} |-> there[m]]
     /\ mistaken' = (mistaken \/ IsTrue(p) # isTrue)
     /\ UNCHANGED <<true, asking>>

\* A process dies, and another one takes its place.
Die(p) == /\ putting[p].phase # "idle" /\ Again(p)
          /\ UNCHANGED <<true, there, asking, mistaken>>

\* Anyone removes a fence that counts no more.  Clauses: META-54.
MayGo(n) == IsOld(n)
Prune == \E n \in DOMAIN there : /\ MayGo(n) /\ there' = [m \in DOMAIN there \ {n} |-> there[m]]
                                 /\ UNCHANGED <<true, putting, asking, mistaken>>

-------------------------------- (* reads *) --------------------------------
\* Read any fence, then look at the newest one.  Clauses: CMT-57.
Read(a) == /\ asking[a].phase = "idle"
           /\ \E n \in DOMAIN there :
                asking' = [asking EXCEPT ![a] = [phase |-> "looking", number |-> n, says |-> there[n]]]
           /\ UNCHANGED <<true, there, putting, mistaken>>

Believes(a) == ~IsOld(asking[a].number)
Conclude(a) == /\ asking[a].phase = "looking"
               /\ asking' = [asking EXCEPT ![a] = [phase |-> "idle", number |-> 0, says |-> {}]]
               /\ mistaken' = (mistaken \/ (Believes(a) /\ asking[a].says # Truth(asking[a].number)))
               /\ UNCHANGED <<true, there, putting>>

FenceInit == /\ true = <<>> /\ there = [n \in {} |-> {}] /\ mistaken = FALSE
             /\ putting = [p \in Putters |-> [phase |-> "idle", number |-> 0, known |-> {}, attempt |-> 0]]
             /\ asking = [a \in Askers |-> [phase |-> "idle", number |-> 0, says |-> {}]]
FenceNext == \/ \E p \in Putters : Decide(p) \/ PutNext(p) \/ Look(p) \/ Die(p)
             \/ Prune
             \/ \E a \in Askers : Read(a) \/ Conclude(a)
FenceSpec == FenceInit /\ [][FenceNext]_vars

-----------------------------------------------------------------------------
\* No process takes a fence for a true one that was put too late, or the other way round.
NobodyIsMistaken == ~mistaken

\* The newest fence is there, and says what all true fences said.  Clauses: CMT-36.
NewestSaysAll == Newest = Len(true) /\ Says(Newest) = Truth(Len(true))
=============================================================================
