------------------------------ MODULE Rollbacks -----------------------------
(* The commits of Commit, of a table that is rolled back.

   A rollback ends all snapshots above its target in one step.  Later commits give
   their ids to other snapshots, so an id no longer says which snapshot it is.

   The subtle case: a job has prepared its metadata on a snapshot that goes, and then
   another snapshot gets that id.  The job puts what it has prepared only if the state
   is still the one on which it has prepared it; else it begins again.

   The numbers of files that go are those of later ones, so no job has a plan that
   names files.                                                                  *)
EXTENDS Commit

CONSTANT RollbackLimit  \* how many rollbacks a model makes

VARIABLE rollbacks  \* a sequence: the target of each rollback

ASSUME RollbackLimit \in Nat
ASSUME PutIfAbsent /\ ~Lock /\ Compactors = {}

RollbackTypeOK == TypeOK /\ rollbacks \in Seq(Nat)

\* Whether the state is still the one on which a job has prepared its metadata.  Clauses: CMT-46.
IsCurrent(job) ==
  LET work == pending[job]
  IN /\ work.base = LatestId
     /\ \A b \in DOMAIN work.after : SubSeq(work.after[b].files, 1, Len(files[b])) = files[b]

CommitCurrent(w) == Is(w, "write", "metadata") /\ IsCurrent(w) /\ Put(w)

\* Go back to the data phase: the state has changed, or the job cannot know that it has not.  Clauses: CMT-46.
BeginAgain(w) == Is(w, "write", "metadata") /\ Stage(w, Retried(pending[w]))

\* Snapshots above the target go, and their writes; their files stay.  It is refused if a tag keeps a later snapshot.
\* Clauses: CMT-42, CMT-45.
Noted(target) == target
HasNoLaterTag(target) == \A id \in DOMAIN tags : id <= target
RollBack(target) ==
  LET gone == {id \in DOMAIN snapshots : id > target}
      content == snapshots[target]
  IN /\ gone # {} /\ HasNoLaterTag(target)
     /\ Len(rollbacks) < RollbackLimit /\ rollbacks' = Append(rollbacks, Noted(target))
     /\ snapshots' = [id \in DOMAIN snapshots \ gone |-> snapshots[id]]
     /\ log' = SubSeq(log, 1, content.writes)
     /\ files' = [b \in BucketIds |-> SubSeq(files[b], 1, content.parts[b].known)]
     /\ UNCHANGED <<tags, stored, lock>>

\* The steps of Commit, without a put on a state that has changed.
Other == /\ \/ \E w \in Writers, n \in DOMAIN Batches : BeginWrite(w, Batches[n])
            \/ \E w \in Writers : PrepareCommit(w) \/ CommitCurrent(w) \/ BeginAgain(w) \/ Crash(w)
            \/ Expire
            \/ \E id \in 1..WriteLimit : Tag(id)
         /\ UNCHANGED rollbacks

RollbackInit == Init /\ rollbacks = <<>>
RollbackNext == Other \/ \E target \in DOMAIN snapshots : RollBack(target) /\ UNCHANGED pending
RollbackSpec == RollbackInit /\ [][RollbackNext]_<<vars, rollbacks>>
=============================================================================
