----------------------------- MODULE AppendTable ----------------------------
(* An append table: files of rows without keys, and changes that are computed on
   one snapshot and committed on a later one.

   A change deletes a row, replaces a row, or compacts files.  It is computed from
   the latest snapshot.  Then it is prepared: compared with the snapshot that is the
   latest by now, to whose deletion vectors its own are added.  Then it is committed,
   if no other vectors have come in between; otherwise it is prepared again.

   The subtle case: with buckets there is one DV index file, which the next one
   replaces.  A commit that does not look loses the vectors of another.  *)
EXTENDS Naturals, Sequences, FiniteSets

CONSTANTS Deleters, Updaters, Compactors,  \* sets of jobs
          FileCount,    \* how many files of two rows there are at first
          AppendLimit,  \* how many files of one row others add
          Buckets,      \* whether a bucket has one DV index file; otherwise it may have any number
          Vectors,      \* whether a delete adds positions to a vector; otherwise it writes the file again
          CommitLimit   \* how many changes a model commits

VARIABLES files,    \* the sequence of the files ever written, each a sequence of rows
          live,     \* the set of the numbers of the live files
          indexes,  \* the set of the DV index files
          commits,  \* the number of commits
          pending,  \* a function from job to its work, or Idle
          rows      \* the meaning: the set of the rows that must be there

ASSUME IsFiniteSet(Deleters)
ASSUME IsFiniteSet(Updaters)
ASSUME IsFiniteSet(Compactors)
ASSUME FileCount \in Nat \ {0}
ASSUME AppendLimit \in Nat
ASSUME Buckets \in BOOLEAN
ASSUME Vectors \in BOOLEAN
ASSUME CommitLimit \in Nat

vars == <<files, live, indexes, commits, pending, rows>>

Jobs == Deleters \cup Updaters \cup Compactors
Idle == [phase |-> "idle"]

-------------------------------- (* types *) --------------------------------
\* No two rows are the same: an update makes a row of another version.
Row == Nat \X ({"first"} \cup Jobs)
Place == (Nat \ {0}) \X (Nat \ {0})  \* a file and a position in it, from 1
Index == [name : Nat \X Jobs, deleted : SUBSET Place]
Change == [places  : SUBSET Place,        \* rows that become deleted
           removed : SUBSET Nat,          \* files that go
           under   : SUBSET Place,        \* the deleted rows of these, as they were read
           adds    : Seq(Row),            \* the rows of a new file, none if there is none
           old     : SUBSET Row,          \* the row that goes, for the meaning
           new     : SUBSET Row]          \* the row that comes
IsWork(work) == \/ work = Idle
                \/ /\ DOMAIN work = {"phase", "change"} /\ work.phase = "computed" /\ work.change \in Change
                \/ /\ DOMAIN work = {"phase", "change", "base", "made"} /\ work.phase = "prepared"
                   /\ work.change \in Change /\ work.base \in SUBSET Index /\ work.made \in SUBSET Index

TypeOK == /\ files \in Seq(Seq(Row))
          /\ live \in SUBSET (Nat \ {0})
          /\ indexes \in SUBSET Index
          /\ commits \in Nat
          /\ DOMAIN pending = Jobs /\ \A job \in Jobs : IsWork(pending[job])
          /\ rows \in SUBSET Row

----------------------------- (* what is read *) ----------------------------
PlacesIn(some) == UNION {index.deleted : index \in some}
Deleted == PlacesIn(indexes)
Of(places, some) == {place \in places : place[1] \in some}
FilesOf(places) == {place[1] : place \in places}
LivePlaces == {place \in UNION {{f} \X DOMAIN files[f] : f \in live} : place \notin Deleted}
RowAt(place) == files[place[1]][place[2]]

RECURSIVE Concatenated(_, _)
\* The rows of files numbered from f on that are in some, without the deleted ones.
Concatenated(some, f) ==
  LET Kept(p) == <<f, p>> \notin Deleted
      RECURSIVE From(_)
      From(p) == IF p > Len(files[f]) THEN <<>>
                 ELSE (IF Kept(p) THEN <<files[f][p]>> ELSE <<>>) \o From(p + 1)
  IN IF f > Len(files) THEN <<>>
     ELSE (IF f \in some THEN From(1) ELSE <<>>) \o Concatenated(some, f + 1)

Without(sequence, row) == SelectSeq(sequence, LAMBDA one : one # row)

------------------------------- (* computing *) -----------------------------
Compute(job, change) == /\ pending' = [pending EXCEPT ![job] = [phase |-> "computed", change |-> change]]
                        /\ UNCHANGED <<files, live, indexes, commits, rows>>

MayBegin(job) == /\ pending[job] = Idle
                 /\ commits + Cardinality({one \in Jobs : pending[one] # Idle}) < CommitLimit

\* Find a row and delete it, or replace it by ``added``.  Clauses: APP-12.
Changing(place, added) ==
  LET f == place[1] row == RowAt(place)
  IN IF Vectors
     THEN [places |-> {place}, removed |-> {}, under |-> {}, adds |-> added,
           old |-> {row}, new |-> {added[n] : n \in DOMAIN added}]
     ELSE [places |-> {}, removed |-> {f}, under |-> Of(Deleted, {f}),
           adds |-> Without(Concatenated({f}, 1), row) \o added,
           old |-> {row}, new |-> {added[n] : n \in DOMAIN added}]

Delete(job) == /\ MayBegin(job)
               /\ \E place \in LivePlaces : Compute(job, Changing(place, <<>>))

Update(job) == /\ MayBegin(job)
               /\ \E place \in LivePlaces : Compute(job, Changing(place, <<<<RowAt(place)[1], job>>>>))

\* Write some files again as one.  Clauses: APP-21.
Compact(job) == /\ MayBegin(job)
                /\ \E some \in SUBSET live \ {{}} :
                     Compute(job, [places |-> {}, removed |-> some, under |-> Of(Deleted, some),
                                   adds |-> Concatenated(some, 1), old |-> {}, new |-> {}])

------------------------------- (* preparing *) -----------------------------
\* Whether files are live.  Clauses: APP-15.
AreLive(some) == some \subseteq live

\* Whether no row of the removed files was deleted since they were read.  Clauses: APP-16.
IsUnderTheSame(change) == Of(Deleted, change.removed) = change.under

\* Whether the rows that become deleted are live.  Clauses: APP-17.
RowsAreLive(change) == change.places \subseteq LivePlaces

Fits(change) == AreLive(change.removed) /\ IsUnderTheSame(change) /\ RowsAreLive(change)

\* The DV index files that must be written again.  Clauses: APP-14.
Touched(change) ==
  LET changed == FilesOf(change.places) \cup change.removed
      TouchedAmong(some) == {index \in some : FilesOf(index.deleted) \cap changed # {}}
  IN IF ~Buckets THEN TouchedAmong(indexes)
     ELSE IF change.places # {} \/ TouchedAmong(indexes) # {} THEN indexes ELSE {}

\* The vectors of the touched files after the change, in one new file.  Clauses: APP-13.
Made(job, change) ==
  LET kept == PlacesIn(Touched(change))
      after == (kept \ Of(kept, change.removed)) \cup change.places
  IN IF after = {} THEN {} ELSE {[name |-> <<commits, job>>, deleted |-> after]}

Prepare(job) ==
  /\ pending[job].phase = "computed" /\ Fits(pending[job].change)
  /\ LET change == pending[job].change
     IN pending' = [pending EXCEPT ![job] = [phase |-> "prepared", change |-> change, base |-> indexes,
                                             made |-> Made(job, change)]]
  /\ UNCHANGED <<files, live, indexes, commits, rows>>

\* A change that does not fit is computed again, which is another change.
Stale(job) == /\ pending[job].phase = "computed" /\ ~Fits(pending[job].change)
              /\ pending' = [pending EXCEPT ![job] = Idle]
              /\ UNCHANGED <<files, live, indexes, commits, rows>>

------------------------------ (* committing *) -----------------------------
\* Whether the vectors are those to which the own ones were added.  Clauses: APP-18.
HasSameIndexes(work) == indexes = work.base

\* Whether the new vectors name files that are live after the commit.  Clauses: DV-4.
NamesLiveFiles(work) == FilesOf(PlacesIn(work.made)) \subseteq live \ work.change.removed

MayCommit(work) == HasSameIndexes(work) /\ AreLive(work.change.removed) /\ NamesLiveFiles(work)

Commit(job) ==
  LET work == pending[job] change == work.change
      number == Len(files) + 1
  IN /\ work.phase = "prepared" /\ MayCommit(work)
     /\ files' = IF change.adds = <<>> THEN files ELSE Append(files, change.adds)
     /\ live' = (live \ change.removed) \cup (IF change.adds = <<>> THEN {} ELSE {number})
     /\ indexes' = (indexes \ Touched(change)) \cup work.made
     /\ commits' = commits + 1
     \* In some order of the commits each change finds its row; one that does not changes nothing.
     /\ rows' = IF change.old \subseteq rows THEN (rows \ change.old) \cup change.new ELSE rows
     /\ pending' = [pending EXCEPT ![job] = Idle]

PrepareAgain(job) ==
  /\ pending[job].phase = "prepared" /\ ~MayCommit(pending[job])
  /\ pending' = [pending EXCEPT ![job] = [phase |-> "computed", change |-> pending[job].change]]
  /\ UNCHANGED <<files, live, indexes, commits, rows>>

\* Others add a file of one row.  Clauses: APP-1.
AddFile == LET number == Len(files) + 1 row == <<2 * FileCount + number, "first">>
           IN /\ Cardinality({f \in DOMAIN files : files[f][1][1] > 2 * FileCount}) < AppendLimit
              /\ files' = Append(files, <<row>>) /\ live' = live \cup {number}
              /\ rows' = rows \cup {row}
              /\ UNCHANGED <<indexes, commits, pending>>

Init == /\ files = [f \in 1..FileCount |-> <<<<2 * f - 1, "first">>, <<2 * f, "first">>>>]
        /\ live = {f : f \in 1..FileCount}
        /\ indexes = {} /\ commits = 0
        /\ pending = [job \in Jobs |-> Idle]
        /\ rows = {<<id, "first">> : id \in 1..(2 * FileCount)}

Next == \/ \E job \in Deleters : Delete(job)
        \/ \E job \in Updaters : Update(job)
        \/ \E job \in Compactors : Compact(job)
        \/ \E job \in Jobs : Prepare(job) \/ Stale(job) \/ Commit(job) \/ PrepareAgain(job)
        \/ AddFile

AppendSpec == Init /\ [][Next]_vars
FairAppend == AppendSpec /\ \A job \in Jobs : WF_vars(Prepare(job) \/ Stale(job) \/ Commit(job) \/ PrepareAgain(job))

------------------------------ (* invariants *) -----------------------------
\* A read returns what the table means.  Clauses: APP-1.
ReadIsTheMeaning == {RowAt(place) : place \in LivePlaces} = rows

\* No row is in two places, and so none is returned twice.  Clauses: APP-1, APP-2.
RowsAreLiveOnce == \A one, other \in LivePlaces : RowAt(one) = RowAt(other) => one = other

\* Clauses: DV-5.
FilesHaveOneVector == \A one, other \in indexes : one # other => FilesOf(one.deleted) \cap FilesOf(other.deleted) = {}

\* Clauses: DV-4.
VectorsNameLiveFiles == FilesOf(Deleted) \subseteq live

\* A change is committed, or computed again.  Clauses: APP-15, APP-18.
EveryChangeEnds == \A job \in Jobs : pending[job] # Idle ~> pending[job] = Idle

\* With buckets there is one DV index file.  Clauses: DV-16.
BucketsHaveOneIndex == Buckets => Cardinality(indexes) < 2
=============================================================================
