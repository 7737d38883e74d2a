----------------------------- MODULE MovingKeys -----------------------------
(* Keys that move between partitions.

   The partition is a property of a row here, and a key has one row in the whole table:
   its place.  No index says where that is.  A writer looks for it in the live files,
   level 0 included, and leaves a retraction in the old place if the row goes elsewhere.

   Reads merge within a partition only.  So a key that has rows in two partitions is
   read twice.  A default read sees what compactions have folded, and a compaction that
   takes one of both partitions shows a key that moved twice, or not at all.           *)
EXTENDS Naturals, Sequences, FiniteSets

CONSTANTS Writers,     \* the set of processes that write
          Compactors,  \* the set of processes that compact
          Keys,        \* the set of keys
          Partitions,  \* the set of partitions
          CommitLimit  \* how many writes are committed

VARIABLES waiting,    \* a function from partition to the sequence of its changes at level 0
          folded,     \* a function from partition to the keys that default reads see in it
          past,       \* the places of the keys after each write, a sequence of functions from key to partition
          changed,    \* a function from key to the number of writes of it
          writing,    \* a function from writer to its phase, key, target, the place that it found, and what was changed
          compacting  \* a function from compactor to its phase, and the changes that it has read of each partition

ASSUME IsFiniteSet(Writers) /\ IsFiniteSet(Compactors) /\ IsFiniteSet(Keys)
ASSUME IsFiniteSet(Partitions)
ASSUME CommitLimit \in Nat

Nowhere == "nowhere"  \* no partition

vars == <<waiting, folded, past, changed, writing, compacting>>

Anywhere == Partitions \cup {Nowhere}
Changes == [key : Keys, adds : BOOLEAN, number : Nat]
Idle == [phase |-> "idle", key |-> CHOOSE k \in Keys : TRUE, to |-> Nowhere, from |-> Nowhere, changed |-> 0]
Nothing == [p \in Partitions |-> <<>>]

TypeOK == /\ DOMAIN waiting = Partitions /\ \A p \in Partitions : waiting[p] \in Seq(Changes)
          /\ folded \in [Partitions -> SUBSET Keys]
          /\ past \in Seq([Keys -> Anywhere])
          /\ changed \in [Keys -> Nat]
          /\ DOMAIN writing = Writers
          /\ \A w \in Writers : /\ writing[w].phase \in {"idle", "placed"} /\ writing[w].key \in Keys
                                /\ writing[w].to \in Anywhere /\ writing[w].from \in Anywhere
                                /\ writing[w].changed \in Nat
          /\ DOMAIN compacting = Compactors
          /\ \A c \in Compactors : /\ compacting[c].phase \in {"idle", "read"}
                                   /\ DOMAIN compacting[c].inputs = Partitions
                                   /\ \A p \in Partitions : compacting[c].inputs[p] \in Seq(Changes)

\* The keys after some changes.
RECURSIVE After(_, _)
After(keys, changes) ==
  IF changes = <<>> THEN keys
  ELSE After(IF Head(changes).adds THEN keys \cup {Head(changes).key} ELSE keys \ {Head(changes).key}, Tail(changes))

Live(p) == After(folded[p], waiting[p])
Is(now) == \A p \in Partitions : folded[p] = {k \in Keys : now[k] = p}

-------------------------------- (* writes *) -------------------------------
\* The place of a key in the live files.  Clauses: BKT-21.
PlaceOf(k) == IF \E p \in Partitions : k \in Live(p) THEN CHOOSE p \in Partitions : k \in Live(p) ELSE Nowhere

\* Find the place of a key, for an upsert into a partition, or a deletion.
Place(w) == /\ writing[w].phase = "idle"
            /\ \E k \in Keys, to \in Anywhere :
                 writing' = [writing EXCEPT ![w] = [phase |-> "placed", key |-> k, to |-> to, from |-> PlaceOf(k),
                                                    changed |-> changed[k]]]
            /\ UNCHANGED <<waiting, folded, past, changed, compacting>>

\* Whether nobody has written the key since.  Clauses: BKT-26.
Fits(w) == writing[w].changed = changed[writing[w].key]

\* Where a write leaves a retraction.  Clauses: BKT-22, BKT-24.
Left(job) == IF job.from # job.to THEN {job.from} \ {Nowhere} ELSE {}

\* Commit, or look for the place again.
Commit(w) ==
  LET job == writing[w]
      one(adds) == <<[key |-> job.key, adds |-> adds, number |-> Len(past)]>>
      change(p) == IF p \in Left(job) THEN one(FALSE) ELSE IF p = job.to THEN one(TRUE) ELSE <<>>
  IN /\ job.phase = "placed" /\ Len(past) <= CommitLimit
     /\ writing' = [writing EXCEPT ![w] = Idle]
     /\ IF Fits(w)
        THEN /\ waiting' = [p \in Partitions |-> waiting[p] \o change(p)]
             /\ past' = Append(past, [past[Len(past)] EXCEPT ![job.key] = job.to])
             /\ changed' = [changed EXCEPT ![job.key] = @ + 1]
        ELSE UNCHANGED <<waiting, past, changed>>
     /\ UNCHANGED <<folded, compacting>>

------------------------------ (* compactions *) ----------------------------
\* The partitions that a compaction takes.  Clauses: BKT-27.
Taken == {Partitions}

Read(c) == /\ compacting[c].phase = "idle" /\ \E p \in Partitions : waiting[p] # <<>>
           /\ \E taken \in Taken :
                compacting' = [compacting EXCEPT ![c] = [phase |-> "read", inputs |-> [p \in Partitions |->
                                                         IF p \in taken THEN waiting[p] ELSE <<>>]]]
           /\ UNCHANGED <<waiting, folded, past, changed, writing>>

IsPrefix(one, other) == Len(one) <= Len(other) /\ SubSeq(other, 1, Len(one)) = one
InputsAreLive(c, p) == IsPrefix(compacting[c].inputs[p], waiting[p])

\* The partitions whose part of a compaction is committed, none if it is to be planned again.  Clauses: BKT-27.
Committed(c) == IF \A p \in Partitions : InputsAreLive(c, p) THEN Partitions ELSE {}

Fold(c) ==
  LET inputs == compacting[c].inputs
  IN /\ compacting[c].phase = "read"
     /\ compacting' = [compacting EXCEPT ![c] = [phase |-> "idle", inputs |-> Nothing]]
     /\ folded' = [p \in Partitions |-> IF p \in Committed(c) THEN After(folded[p], inputs[p]) ELSE folded[p]]
     /\ waiting' = [p \in Partitions |-> IF p \in Committed(c)
                                         THEN SubSeq(waiting[p], Len(inputs[p]) + 1, Len(waiting[p])) ELSE waiting[p]]
     /\ UNCHANGED <<past, changed, writing>>

MovingInit == /\ waiting = Nothing /\ folded = [p \in Partitions |-> {}]
              /\ past = <<[k \in Keys |-> Nowhere]>> /\ changed = [k \in Keys |-> 0]
              /\ writing = [w \in Writers |-> Idle]
              /\ compacting = [c \in Compactors |-> [phase |-> "idle", inputs |-> Nothing]]
MovingNext == \/ \E w \in Writers : Place(w) \/ Commit(w)
              \/ \E c \in Compactors : Read(c) \/ Fold(c)
MovingSpec == MovingInit /\ [][MovingNext]_vars

-----------------------------------------------------------------------------
\* A key has one place, and that of the last write of it.  Clauses: BKT-21, BKT-26.
FreshReadIsTheFold == \A p \in Partitions : Live(p) = {k \in Keys : past[Len(past)][k] = p}

\* A default read is what a fresh read was at some time.  Clauses: BKT-27.
DefaultReadWasFresh == \E n \in DOMAIN past : Is(past[n])
=============================================================================
