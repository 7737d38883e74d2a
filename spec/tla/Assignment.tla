----------------------------- MODULE Assignment -----------------------------
(* Writers of a partition with dynamic buckets, who give its keys their buckets.

   A writer reads the hash index files of the partition, gives each of its keys a
   bucket, and writes.  Others do the same at the same time.  Its commit puts the index
   files that it has made in the place of those that it has read.

   Reads merge within a bucket only.  So a key that is in two buckets is read twice, and
   a retraction that goes to the wrong bucket deletes nothing.

   A hash stands for its key here.  Two keys of one hash share a bucket, which changes
   nothing.  Compactions leave the index as it is (BKT-12).                            *)
EXTENDS Naturals, FiniteSets

CONSTANTS Writers,     \* the set of processes that write
          Keys,        \* the set of keys
          Target,      \* how many hashes a bucket has before new keys go to the next one
          CommitLimit  \* how many commits there are

VARIABLES index,    \* a function from bucket to the keys that its hash index file has
          version,  \* how often the index files have changed
          rows,     \* the set of live rows: pairs of a bucket and a key
          fold,     \* the keys that are live by the commits in their order
          writing,  \* a function from writer to its phase, work, keys, the index after it, and the version that it read
          commits   \* how many commits there were

ASSUME IsFiniteSet(Writers) /\ IsFiniteSet(Keys)
ASSUME Target \in Nat \ {0}
ASSUME CommitLimit \in Nat

vars == <<index, version, rows, fold, writing, commits>>

Buckets == 0..(Cardinality(Keys) - 1)
Works == {"upsert", "delete", "overwrite"}
NoIndex == [b \in Buckets |-> {}]
Idle == [phase |-> "idle", work |-> "upsert", keys |-> {}, after |-> NoIndex, version |-> 0]

TypeOK == /\ index \in [Buckets -> SUBSET Keys]
          /\ version \in Nat
          /\ rows \subseteq Buckets \X Keys
          /\ fold \subseteq Keys
          /\ DOMAIN writing = Writers
          /\ \A w \in Writers : /\ writing[w].phase \in {"idle", "assigned"} /\ writing[w].work \in Works
                                /\ writing[w].keys \subseteq Keys
                                /\ writing[w].after \in [Buckets -> SUBSET Keys]
                                /\ writing[w].version \in Nat
          /\ commits \in Nat

------------------------------ (* where keys go *) --------------------------
\* A key without a bucket gets the first one with room.  Clauses: BKT-5.
Free(in) == CHOOSE b \in Buckets : /\ Cardinality(in[b]) < Target
                                   /\ \A c \in Buckets : Cardinality(in[c]) < Target => b <= c

Has(in, k) == \E b \in Buckets : k \in in[b]

\* An index with the keys of some rows, whose order is not said.  Clauses: BKT-4, BKT-5.
RECURSIVE Assigned(_, _)
Assigned(in, keys) ==
  LET new == {k \in keys : ~Has(in, k)}
      one == CHOOSE k \in new : TRUE
  IN IF new = {} THEN in ELSE Assigned([in EXCEPT ![Free(in)] = @ \cup {one}], new \ {one})

\* The index that a write begins with.  Clauses: BKT-11.
Known(work) == IF work = "overwrite" THEN NoIndex ELSE index

\* The places of some keys by an index.
Places(in, keys) == {<<b, k>> \in Buckets \X keys : k \in in[b]}

-------------------------------- (* writes *) -------------------------------
\* Read the index, and give the keys their buckets.
Begin(w) == /\ writing[w].phase = "idle"
            /\ \E work \in Works, keys \in SUBSET Keys \ {{}} :
                 writing' = [writing EXCEPT ![w] = [phase |-> "assigned", work |-> work, keys |-> keys,
                                                    after |-> Assigned(Known(work), keys), version |-> version]]
            /\ UNCHANGED <<index, version, rows, fold, commits>>

\* Whether the index files are those that the keys were assigned by.  Clauses: BKT-8.
Fits(w) == writing[w].version = version

\* The index files after a commit.  Clauses: BKT-3, BKT-11.
IndexAfter(w) == writing[w].after

\* Commit, or assign again.
Commit(w) ==
  LET job == writing[w]
  IN /\ job.phase = "assigned" /\ commits < CommitLimit
     /\ writing' = [writing EXCEPT ![w] = Idle]
     /\ IF Fits(w)
        THEN /\ index' = IndexAfter(w)
             /\ version' = IF IndexAfter(w) = index THEN version ELSE version + 1
             /\ rows' = CASE job.work = "upsert" -> rows \cup Places(job.after, job.keys)
                          [] job.work = "delete" -> rows \ Places(job.after, job.keys)
                          [] OTHER -> Places(job.after, job.keys)
             /\ fold' = CASE job.work = "upsert" -> fold \cup job.keys
                          [] job.work = "delete" -> fold \ job.keys
                          [] OTHER -> job.keys
             /\ commits' = commits + 1
        ELSE UNCHANGED <<index, version, rows, fold, commits>>

AssignmentInit == /\ index = NoIndex /\ version = 0 /\ rows = {} /\ fold = {} /\ commits = 0
                  /\ writing = [w \in Writers |-> Idle]
AssignmentNext == \E w \in Writers : Begin(w) \/ Commit(w)
AssignmentSpec == AssignmentInit /\ [][AssignmentNext]_vars

-----------------------------------------------------------------------------
\* A hash is in one bucket at most.  Clauses: BKT-3.
AHashHasOneBucket == \A k \in Keys : Cardinality({b \in Buckets : k \in index[b]}) <= 1

\* The index has every key that is live in the bucket.  Clauses: BKT-3.
RowsAreIndexed == \A row \in rows : row[2] \in index[row[1]]

\* A read has the keys that the fold of all commits has.  Clauses: BKT-8.
ReadIsTheFold == {row[2] : row \in rows} = fold

\* No bucket has more hashes than it may.  Clauses: BKT-5.
NoBucketIsOverfull == \A b \in Buckets : Cardinality(index[b]) <= Target
=============================================================================
