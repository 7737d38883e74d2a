--------------------------- MODULE StoreOperations --------------------------
(* The commits of Commit, one operation on the store at a time.

   Commit puts a snapshot in one step that also knows which numbers were ever taken.
   A store offers less: it creates a file only where none is, and a file is absent
   both before its snapshot is committed and after it has expired.  Between two
   operations of a job any other job may run, a job may die, the answer of a put may
   be lost, and a put whose answer was lost may arrive later.

   The means against that are fences: files with numbers that are taken once and in order.
   They stay.  (FenceNumbers says how they do though old ones are removed.)  An expiry
   puts a fence with the snapshots that it expires, before it removes their files.  A rollback puts a fence before it removes the
   snapshots above its target.  A snapshot carries the number of rollbacks that its job
   knew.  So a file counts as a snapshot if its id is above all ids that expired, and
   if no later rollback was to a smaller id.  A job looks at the fences after its put,
   and before it believes that a put has failed.

   The subtle case: the id of a job has expired when it looks.  Its put either made the
   snapshot that expired, or came later and made a stray.  The fence of the expiry
   decides, because it names the snapshots and not only their ids.               *)
EXTENDS Rollbacks

CONSTANTS Expirers, Rollers, Readers,  \* three sets of jobs
          AnswersLost     \* whether the answer of a put may be lost, and a put arrive late

VARIABLES expired,    \* the greatest id that a fence names as expired
          held,       \* a function from the ids that have a file to [owner, epoch]
          puts,       \* a function from job to its put
          late,       \* a set of [job, id, epoch]: puts under way that their jobs gave up or sent again
          expiries, rollings, readings,  \* functions from job to its progress
          mistaken       \* whether a job has drawn a mistaken conclusion; for the invariants

ASSUME IsFiniteSet(Expirers) /\ IsFiniteSet(Rollers) /\ IsFiniteSet(Readers)
ASSUME AnswersLost \in BOOLEAN
ASSUME TagLimit = 0

store == <<expired, rollbacks, held, puts, late, expiries, rollings, readings, mistaken>>
all == <<vars, store>>

\* A put has: its id, 0 for none.  Its step.  Whether a request is under way.  What the job
\* has read back, and the number of rollbacks known to whoever put that.  The number of rollbacks that
\* it knew itself, and that the job of its base knew.  Whether it made a snapshot, and whether a fence
\* names that, which the job cannot see.  The work, to begin again.
NoPut == [id |-> 0, step |-> "none", wire |-> FALSE, saw |-> "none", other |-> 0, epoch |-> 0, base |-> 0,
          made |-> FALSE, named |-> FALSE, work |-> Idle]
Nobody == "nobody"
NoJob == [step |-> "none", id |-> 0, fences |-> 0, seen |-> {}]
NoRead == [step |-> "none", id |-> 0, true |-> FALSE, least |-> 0, epoch |-> 0]

StoreTypeOK ==
  /\ expired \in Nat /\ mistaken \in BOOLEAN
  /\ DOMAIN held \subseteq Nat \ {0}
  /\ \A id \in DOMAIN held : held[id] \in [owner : Jobs \cup {Nobody}, epoch : Nat]
  /\ DOMAIN puts = Jobs
  /\ \A j \in Jobs : /\ DOMAIN puts[j] = DOMAIN NoPut /\ {puts[j].id, puts[j].epoch, puts[j].base, puts[j].other} \subseteq Nat
                     /\ puts[j].step \in {"none", "waiting", "unsure", "read", "put", "dead"}
                     /\ puts[j].saw \in {"none", "mine", "other", "absent"}
                     /\ {puts[j].wire, puts[j].made, puts[j].named} \subseteq BOOLEAN
                     /\ IsWork(puts[j].work)
  /\ late \subseteq [job : Jobs, id : Nat, epoch : Nat]
  /\ DOMAIN expiries = Expirers /\ DOMAIN rollings = Rollers /\ DOMAIN readings = Readers

\* How many fences there are.  A fence is put where none is, so a job that read this number and
\* puts the next one knows all fences before it.
Fences == expired + Len(rollbacks)

\* Whether a file with this id and epoch has been rolled back, or was put by a job that did not
\* know of a rollback to a smaller id.
IsVoid(id, epoch) == \E r \in (epoch + 1)..Len(rollbacks) : id > rollbacks[r]

\* Whether readers take the file of this id for a snapshot.  Clauses: CMT-36.
IsBelieved(id) == id \in DOMAIN held /\ id > expired /\ ~IsVoid(id, held[id].epoch)

StoreInit == /\ RollbackInit
             /\ expired = 0 /\ held = [id \in {} |-> NoPut]
             /\ puts = [j \in Jobs |-> NoPut] /\ late = {} /\ mistaken = FALSE
             /\ expiries = [e \in Expirers |-> NoJob] /\ rollings = [r \in Rollers |-> NoJob]
             /\ readings = [r \in Readers |-> NoRead]

With(f, id, value) == [one \in DOMAIN f \cup {id} |-> IF one = id THEN value ELSE f[one]]
Without(f, id) == [one \in DOMAIN f \ {id} |-> f[one]]
SetPut(j, put) == puts' = [puts EXCEPT ![j] = put]
Released(f, j) == [id \in DOMAIN f |-> IF f[id].owner = j THEN [f[id] EXCEPT !.owner = Nobody] ELSE f[id]]

------------------------------- (* commits *) -------------------------------
\* Another module's steps, of a job without an open put.
Step(action) == action /\ UNCHANGED store
\* The number of rollbacks is read before the state that the commit is prepared on, so there may be
\* more of them by then.
PrepareStep(j) ==
  LET base == IF LatestId = 0 THEN 0 ELSE held[LatestId].epoch
  IN /\ puts[j].step = "none" /\ PrepareCommit(j)
     /\ \E epoch \in 0..Len(rollbacks) : SetPut(j, [NoPut EXCEPT !.epoch = epoch, !.base = base])
     /\ UNCHANGED <<expired, rollbacks, held, late, expiries, rollings, readings, mistaken>>

IsPreparedJob(j) == ~IsIdle(j) /\ pending[j].phase = "metadata"

\* Or the number is read after the state, which has not ended by then.  Others may have committed since.
LookAfterwards(j) ==
  LET base == pending[j].base
  IN /\ puts[j].step = "none" /\ IsPreparedJob(j) /\ base > expired /\ ~IsVoid(base, puts[j].base)
     /\ SetPut(j, [puts[j] EXCEPT !.epoch = Len(rollbacks)])
     /\ UNCHANGED vars /\ UNCHANGED <<expired, rollbacks, held, late, expiries, rollings, readings, mistaken>>

\* Send the put.  Clauses: CMT-19.
Send(j) ==
  LET work == IF RollbackLimit > 0 THEN pending[j] ELSE Idle
  IN /\ puts[j].step = "none" /\ IsPreparedJob(j)
     /\ SetPut(j, [puts[j] EXCEPT !.id = pending[j].base + 1, !.step = "waiting", !.wire = TRUE, !.work = work])
     /\ UNCHANGED vars /\ UNCHANGED <<expired, rollbacks, held, late, expiries, rollings, readings, mistaken>>

\* The job after its request has arrived, with the answer or without.
Answered(put, answer) ==
  LET step == IF put.step # "waiting" THEN put.step ELSE IF answer THEN "put" ELSE "unsure"
  IN [put EXCEPT !.wire = FALSE, !.step = step]

\* The request arrives where a file is.  That may be the job's own, so it reads it back.
ArriveTaken(j) ==
  LET put == puts[j]
  IN /\ put.wire /\ put.id \in DOMAIN held
     /\ IF put.step = "dead" /\ ~put.made
        THEN Crash(j) /\ SetPut(j, NoPut)
        ELSE UNCHANGED vars /\ SetPut(j, IF put.step = "dead" THEN NoPut ELSE Answered(put, FALSE))
     /\ UNCHANGED <<expired, rollbacks, held, late, expiries, rollings, readings, mistaken>>

\* The request arrives where no file is.  It makes a snapshot, or a stray if the id has expired
\* or was rolled back.
ArriveFree(j) ==
  LET put == puts[j]
      snapshot == put.id > expired /\ ~IsVoid(put.id, put.epoch)
      dead == put.step = "dead"
  IN /\ put.wire /\ put.id \notin DOMAIN held
     /\ held' = With(held, put.id, [owner |-> IF dead THEN Nobody ELSE j, epoch |-> put.epoch])
     /\ \E answer \in {TRUE} \cup (IF AnswersLost THEN {FALSE} ELSE {}) :
          SetPut(j, IF dead THEN NoPut ELSE [Answered(put, answer) EXCEPT !.made = @ \/ snapshot])
     /\ IF snapshot THEN Put(j) ELSE IF dead /\ ~put.made THEN Crash(j) ELSE UNCHANGED vars
     /\ UNCHANGED <<expired, rollbacks, late, expiries, rollings, readings, mistaken>>

\* No answer comes.  The request may still be under way, or may be lost.
LoseAnswer(j) ==
  /\ AnswersLost /\ puts[j].step = "waiting" /\ puts[j].wire
  /\ \E wire \in BOOLEAN : SetPut(j, [puts[j] EXCEPT !.step = "unsure", !.wire = wire])
  /\ UNCHANGED vars /\ UNCHANGED <<expired, rollbacks, held, late, expiries, rollings, readings, mistaken>>

\* Read the file of the id back, and again as long as that decides nothing.  Clauses: CMT-38.
ReadBack(j) ==
  LET id == puts[j].id
      saw == IF id \notin DOMAIN held THEN "absent" ELSE IF held[id].owner = j THEN "mine" ELSE "other"
      other == IF saw = "other" THEN held[id].epoch ELSE 0
  IN /\ puts[j].step \in {"unsure", "read"}
     /\ SetPut(j, [puts[j] EXCEPT !.step = "read", !.saw = saw, !.other = other])
     /\ UNCHANGED vars /\ UNCHANGED <<expired, rollbacks, held, late, expiries, rollings, readings, mistaken>>

\* The verdict of a job that looks at the fences.  A file that was rolled back does not have the id: it
\* is removed, and then a put that is still under way makes a snapshot.  Clauses: CMT-37, CMT-38.
HasId(put) == put.saw = "other" /\ ~IsVoid(put.id, put.other)
Gone(put) == put.id <= expired \/ IsVoid(put.id, put.epoch)
Verdict(put) ==
  IF Gone(put) THEN (IF put.named THEN "committed" ELSE "lost")
  ELSE IF put.step = "put" \/ put.saw = "mine" THEN "committed"
  ELSE IF HasId(put) THEN "lost" ELSE "again"

\* The request of a job that gives its put up, or sends it again.
UnderWay(j) == IF puts[j].wire THEN {[job |-> j, id |-> puts[j].id, epoch |-> puts[j].epoch]} ELSE {}

\* Tell the caller that it is committed.
Tell(j) ==
  /\ puts[j].step \in {"put", "read"} /\ Verdict(puts[j]) = "committed"
  /\ mistaken' = (mistaken \/ ~puts[j].made) /\ SetPut(j, NoPut) /\ held' = Released(held, j)
  /\ late' = late \cup UnderWay(j)
  /\ IF puts[j].made THEN UNCHANGED vars ELSE Stage(j, Idle)
  /\ UNCHANGED <<expired, rollbacks, expiries, rollings, readings>>

\* Begin again on the latest snapshot.  The metadata of the attempt is removed, and the stray if
\* there is one.  That is mistaken if the put has made a snapshot.
Lose(j) ==
  /\ puts[j].step \in {"put", "read"} /\ Verdict(puts[j]) = "lost"
  /\ mistaken' = (mistaken \/ puts[j].made) /\ SetPut(j, NoPut) /\ held' = Released(held, j)
  /\ late' = late \cup UnderWay(j)
  /\ IF puts[j].made THEN UNCHANGED vars ELSE Stage(j, Retried(pending[j]))
  /\ UNCHANGED <<expired, rollbacks, expiries, rollings, readings>>

\* Send the same put again.
SendAgain(j) ==
  /\ puts[j].step = "read" /\ Verdict(puts[j]) = "again"
  /\ SetPut(j, [puts[j] EXCEPT !.step = "waiting", !.wire = TRUE, !.saw = "none", !.other = 0])
  /\ late' = late \cup UnderWay(j)
  /\ UNCHANGED vars /\ UNCHANGED <<expired, rollbacks, held, expiries, rollings, readings, mistaken>>

\* A put arrives that its job gave up or sent again.  It makes a snapshot only for a job that has not given
\* its caller an answer yet.
ArriveLate ==
  \E put \in late :
    LET j == put.job
        open == puts[j].step # "none" /\ puts[j].id = put.id /\ puts[j].epoch = put.epoch
        snapshot == put.id > expired /\ ~IsVoid(put.id, put.epoch)
        owner == IF open /\ puts[j].step # "dead" THEN j ELSE Nobody
    IN /\ late' = late \ {put}
       /\ IF put.id \in DOMAIN held THEN UNCHANGED <<vars, held, puts, mistaken>>
          ELSE /\ held' = With(held, put.id, [owner |-> owner, epoch |-> put.epoch])
               /\ IF open /\ snapshot
                  THEN Put(j) /\ SetPut(j, [puts[j] EXCEPT !.made = TRUE]) /\ UNCHANGED mistaken
                  ELSE mistaken' = (mistaken \/ snapshot) /\ UNCHANGED <<vars, puts>>
       /\ UNCHANGED <<expired, rollbacks, expiries, rollings, readings>>

\* A job dies.  Its request may still arrive.  To give up with an unknown outcome is the same,
\* because then nothing is removed.
Die(j) ==
  /\ Crashes /\ puts[j].step # "dead" /\ (puts[j].step # "none" \/ ~IsIdle(j))
  /\ held' = Released(held, j)
  /\ IF puts[j].wire \/ \E put \in late : put.job = j /\ put.id = puts[j].id
     THEN SetPut(j, [puts[j] EXCEPT !.step = "dead", !.wire = TRUE]) /\ UNCHANGED vars
     ELSE SetPut(j, NoPut) /\ IF IsIdle(j) \/ puts[j].made THEN UNCHANGED vars ELSE Crash(j)
  /\ UNCHANGED <<expired, rollbacks, late, expiries, rollings, readings, mistaken>>

------------------------------- (* expiry *) --------------------------------
SetExpiry(e, job) == expiries' = [expiries EXCEPT ![e] = job]

\* Read the fences and the snapshots, and choose the oldest if it is not the latest.
PlanExpiry(e) ==
  /\ expiries[e].step = "none" /\ LatestId > expired + 1
  /\ SetExpiry(e, [step |-> "planned", id |-> expired + 1, fences |-> Fences, seen |-> {held[expired + 1].owner}])
  /\ UNCHANGED vars /\ UNCHANGED <<expired, rollbacks, held, puts, late, rollings, readings, mistaken>>

\* The puts that a fence names, after the jobs whose files were seen.
NamedPuts(seen, ids) == [j \in Jobs |-> IF j \in seen /\ puts[j].id \in ids /\ puts[j].made
                                     THEN [puts[j] EXCEPT !.named = TRUE] ELSE puts[j]]

\* Put the next fence, or plan again because it is taken.  Clauses: CMT-35.
IsNextFence(job) == job.fences = Fences
FenceExpiry(e) ==
  /\ expiries[e].step = "planned"
  /\ IF IsNextFence(expiries[e])
     THEN /\ Expire /\ expired' = Max({expired, expiries[e].id})
          /\ puts' = NamedPuts(expiries[e].seen, {expiries[e].id})
          /\ SetExpiry(e, [expiries[e] EXCEPT !.step = "fenced"])
     ELSE UNCHANGED vars /\ UNCHANGED <<expired, puts>> /\ SetExpiry(e, NoJob)
  /\ UNCHANGED <<rollbacks, held, late, rollings, readings, mistaken>>

\* Remove the file, by its name: whatever has that id has expired.  Clauses: CMT-16.
RemoveExpired(e) ==
  /\ expiries[e].step = "fenced" /\ SetExpiry(e, NoJob)
  /\ held' = Without(held, expiries[e].id)
  /\ UNCHANGED vars /\ UNCHANGED <<expired, rollbacks, puts, late, rollings, readings, mistaken>>

\* Any job removes a file whose id has expired, its own stray for one.
Sweep == \E id \in DOMAIN held :
  /\ id <= expired /\ held' = Without(held, id)
  /\ UNCHANGED vars /\ UNCHANGED <<expired, rollbacks, puts, late, expiries, rollings, readings, mistaken>>

DieExpiry(e) == /\ Crashes /\ expiries[e].step # "none" /\ SetExpiry(e, NoJob)
                /\ UNCHANGED vars /\ UNCHANGED <<expired, rollbacks, held, puts, late, rollings, readings, mistaken>>

------------------------------ (* rollback *) -------------------------------
\* The data files of snapshots that go stay: a job may commit them again.  Clauses: CMT-52.
LeftBy(ids) == stored

\* Snapshots above the target are gone, at once.  A write that was rolled back before its job
\* looked was not named by the fence: its job begins it again.
RollbackTo(target, seen) ==
  LET content == IF target \in DOMAIN snapshots THEN snapshots[target] ELSE Empty
      ids == {id \in DOMAIN snapshots : id > target}
      Again(j) == puts[j].made /\ puts[j].id > target /\ ~(j \in seen)
  IN /\ snapshots' = [id \in DOMAIN snapshots \ ids |-> snapshots[id]]
     /\ log' = SubSeq(log, 1, content.writes)
     /\ files' = [b \in BucketIds |-> SubSeq(files[b], 1, content.parts[b].known)]
     /\ pending' = [j \in Jobs |-> IF Again(j) THEN puts[j].work ELSE pending[j]]
     /\ puts' = [j \in Jobs |-> IF Again(j) THEN [puts[j] EXCEPT !.made = FALSE] ELSE NamedPuts(seen, ids)[j]]
     /\ stored' = LeftBy(ids)
     /\ UNCHANGED <<tags, lock>>

PlanRollback(r) ==
  /\ rollings[r].step = "none" /\ Len(rollbacks) < RollbackLimit
  /\ \E target \in DOMAIN snapshots \ {LatestId} :
       rollings' = [rollings EXCEPT ![r] = [step |-> "planned", id |-> target, fences |-> Fences,
                                            seen |-> {held[id].owner : id \in {i \in DOMAIN snapshots : i > target}}]]
  /\ UNCHANGED vars /\ UNCHANGED <<expired, rollbacks, held, puts, late, expiries, readings, mistaken>>

\* Clauses: CMT-42.
FenceRollback(r) ==
  /\ rollings[r].step = "planned"
  /\ IF IsNextFence(rollings[r]) /\ Len(rollbacks) < RollbackLimit
     THEN /\ RollbackTo(rollings[r].id, rollings[r].seen) /\ rollbacks' = Append(rollbacks, rollings[r].id)
          /\ mistaken' = (mistaken \/ ~(rollings[r].id \in DOMAIN snapshots))  \* the target has expired
     ELSE UNCHANGED vars /\ UNCHANGED <<rollbacks, puts, mistaken>>
  /\ rollings' = [rollings EXCEPT ![r] = NoJob]
  /\ UNCHANGED <<expired, held, late, expiries, readings>>

\* Remove a file that was rolled back.  One process does so, once: who created the file that
\* says so.  Clauses: CMT-43.
RemoveVoid == \E id \in DOMAIN held :
  /\ id > expired /\ IsVoid(id, held[id].epoch) /\ held' = Without(held, id)
  /\ UNCHANGED vars /\ UNCHANGED <<expired, rollbacks, puts, late, expiries, rollings, readings, mistaken>>

-------------------------------- (* reads *) --------------------------------
\* Find the latest snapshot by a hint, which may be any number: read its file, see that the next
\* one is absent, look at the fences.  Clauses: CMT-13, CMT-36.
SetRead(r, read) == /\ readings' = [readings EXCEPT ![r] = read] /\ UNCHANGED vars
                    /\ UNCHANGED <<expired, rollbacks, held, puts, late, expiries, rollings>>
ReadHint(r) ==
  /\ readings[r].step = "none"
  /\ \E id \in DOMAIN held :
       SetRead(r, [step |-> "read", id |-> id, true |-> id \in DOMAIN snapshots, epoch |-> held[id].epoch,
                   least |-> LatestId])
  /\ UNCHANGED mistaken
SeeNext(r) ==
  /\ readings[r].step = "read"
  /\ SetRead(r, IF (readings[r].id + 1) \in DOMAIN held THEN NoRead ELSE [readings[r] EXCEPT !.step = "seen"])
  /\ UNCHANGED mistaken
Refuses(read) == read.id <= expired \/ IsVoid(read.id, read.epoch)
LookAtFences(r) ==
  LET read == readings[r]
  IN /\ read.step = "seen" /\ SetRead(r, NoRead)
     /\ mistaken' = (mistaken \/ (~Refuses(read) /\ (~read.true \/ (read.id < read.least /\ rollbacks = <<>>))))

StoreNext ==
  \/ \E w \in Writers, n \in DOMAIN Batches : puts[w].step = "none" /\ Step(BeginWrite(w, Batches[n]))
  \/ \E j \in Jobs :
       \/ PrepareStep(j) \/ LookAfterwards(j) \/ Send(j) \/ ArriveTaken(j) \/ ArriveFree(j) \/ LoseAnswer(j) \/ ReadBack(j)
       \/ Tell(j) \/ Lose(j) \/ SendAgain(j) \/ Die(j)
  \/ ArriveLate
  \/ \E e \in Expirers : PlanExpiry(e) \/ FenceExpiry(e) \/ RemoveExpired(e) \/ DieExpiry(e)
  \/ Sweep
  \/ \E r \in Rollers : PlanRollback(r) \/ FenceRollback(r)
  \/ RemoveVoid
  \/ \E r \in Readers : ReadHint(r) \/ SeeNext(r) \/ LookAtFences(r)

StoreSpec == StoreInit /\ [][StoreNext]_all

\* Of requests that are sent again and again some arrive.
FairStore ==
  /\ StoreSpec
  /\ \A j \in Jobs : /\ WF_all(PrepareStep(j) \/ Send(j) \/ ReadBack(j) \/ Tell(j) \/ Lose(j) \/ SendAgain(j))
                     /\ SF_all(ArriveTaken(j) \/ ArriveFree(j))

----------------------------------------------------------------------------
\* No job calls a write committed if it is not, or removes the files of one that is.
\* No reader takes another file for the latest snapshot.  Clauses: CMT-36, CMT-37, CMT-38.
NobodyIsWrong == ~mistaken

\* A job tells its caller, however often it begins again.  Clauses: CMT-3, CMT-38.
IsOpen(j) == ~IsIdle(j) \/ puts[j].step # "none"
EveryJobTells == \A j \in Jobs : IsOpen(j) ~> ~IsOpen(j)

\* Readers see the snapshots of Commit, no more and no fewer.  Clauses: CMT-36.
BelievedAreSnapshots == {id \in DOMAIN held : IsBelieved(id)} = DOMAIN snapshots

\* A job whose snapshot was rolled back before its caller knows of it has its work again, as it has put it.
HasAgain(j, work, gone) ==
  /\ work # pending[j] /\ IsPrepared(work) /\ pending[j] = work.then
  /\ (work.base + 1) \in gone /\ Content(work) = snapshots[work.base + 1]
GiveBack(gone) ==
  LET Again == {j \in Jobs : HasAgain(j, pending'[j], gone)}
  IN /\ \A j \in Jobs \ Again : pending'[j] = pending[j]
     /\ \A j, k \in Again : pending'[j].base = pending'[k].base => j = k

\* Each step is one of Commit with rollbacks, or changes nothing there.
RefinesCommit ==
  /\ RollbackInit
  /\ [][\/ Other
        \/ \E target \in DOMAIN snapshots : RollBack(target) /\ GiveBack({id \in DOMAIN snapshots : id > target})
       ]_<<vars, rollbacks>>
=============================================================================
