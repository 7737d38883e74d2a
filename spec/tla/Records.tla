------------------------------ MODULE Records ------------------------------
(* Records and how records of one key are merged.  Constants only: no state.

   A change is [key, kind, row].  A record is a change with a sequence number,
   [key, seq, kind, row].  Keys are integers; for kinds and rows see Engines. *)
EXTENDS Engines, FiniteSets

Max(S) == CHOOSE x \in S : \A y \in S : y <= x
Min(S) == CHOOSE x \in S : \A y \in S : x <= y
Smaller(m, n) == IF m < n THEN m ELSE n
Greater(m, n) == IF m > n THEN m ELSE n
Range(s) == {s[i] : i \in DOMAIN s}
KeysOf(S) == {r.key : r \in S}

-------------------------------- (* types *) --------------------------------
Change == [key : Int, kind : Kinds, row : Int]
Record == [key : Int, seq : Nat, kind : Kinds, row : Int]

\* The writes that a model may make: each a sequence of changes, none of them empty.
AreBatches(batches) == /\ batches \in Seq(Seq(Change))
                       /\ \A n \in DOMAIN batches : batches[n] # <<>>

------------------------------- (* merging *) -------------------------------
\* Whether one of two records of a key is newer than the other.  Clauses: MRG-1, MRG-2, MRG-4, MRG-6.
Newer(r, s) == r.seq > s.seq \/ (r.seq = s.seq /\ IsAdd(r) /\ ~IsAdd(s))

\* The one record that records of one key become, oldest first.  It has the
\* sequence number of the newest.
Folded(records) ==
  LET change == Engine(records)
  IN [records[Len(records)] EXCEPT !.kind = change.kind, !.row = change.row]

\* One record of each key.  `runs` is a sequence of sets of records, newest first:
\* if neither of two records is newer by itself, the record of the newer run is.
\* Clauses: MRG-1, MRG-2, MRG-5, MRG-6.
Merge(runs) ==
  LET all        == UNION {{<<i, r>> : r \in runs[i]} : i \in DOMAIN runs}
      Beats(c, d) == \/ Newer(c[2], d[2])
                     \/ (~Newer(d[2], c[2]) /\ c[1] < d[1])
      Of(key)     == {c \in all : c[2].key = key}
      Nth(some, n) == (CHOOSE c \in some : Cardinality({d \in some \ {c} : Beats(c, d)}) = n - 1)[2]
      OldestFirst(some) == SubSeq([n \in 1..Cardinality(some) |-> Nth(some, n)], 1, Cardinality(some))
  IN {Folded(records) : records \in {OldestFirst(some) : some \in {Of(key) : key \in {c[2].key : c \in all}}}}

\* The records of a set that has one record per key, in the order of a data file.
\* Clauses: LSM-1.
Ascending(S) == [i \in 1..Cardinality(S) |->
                   CHOOSE r \in S : Cardinality({s \in S : s.key < r.key}) = i - 1]

\* One write as a set of records: numbered consecutively, then merged by key.
\* Clauses: LSM-5, TBL-6.
Flush(changes, first) ==
  LET Numbered(i) == [key |-> changes[i].key, seq |-> first + i - 1,
                      kind |-> changes[i].kind, row |-> changes[i].row]
      count == Len(changes)
  IN Merge([i \in 1..count |-> {Numbered(count + 1 - i)}])

\* The rows of records, as a function from key to row; and the records of a write,
\* as a function from key to change.
AsTable(records) ==
  LET adds == {r \in records : IsAdd(r)}
  IN [k \in KeysOf(adds) |-> (CHOOSE r \in adds : r.key = k).row]
AsWrite(records) ==
  [k \in KeysOf(records) |->
     LET r == CHOOSE r \in records : r.key = k IN [kind |-> r.kind, row |-> r.row]]

----------------------------------------------------------------------------
\* In every order: no records become none, one record stays as it is, and two of
\* one key become one.
ASSUME LET Of(seq) == [key |-> 1, seq |-> seq, kind |-> "+I", row |-> seq]
       IN /\ Merge(<<>>) = {} /\ Merge(<<{Of(0)}>>) = {Of(0)}
          /\ \A runs \in {<<{Of(1)}, {Of(0)}>>, <<{Of(0)}, {Of(1)}>>} : Cardinality(Merge(runs)) = 1
=============================================================================
