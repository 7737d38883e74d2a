----------------------------- MODULE LogArchive ----------------------------
(* The end of one write to a Hudi table, and how the write leaves the timeline.

   The writer decides that its write is complete.  Others who find it pending decide
   that it is rolled back.  A decision is created only if it is absent.  Whoever has
   created or found one looks at the timeline, and then at the history, before doing
   what is decided.

   An archiver puts a complete write into the history.  Then it deletes the requested
   file, the completed file, and last the decision, which is left of writes that were
   rolled back.

   The subtle case: a decision is deleted, and somebody who is late creates the
   opposite one.  *)
EXTENDS Naturals, FiniteSets

CONSTANTS Writers, \* the set of the process of the write
          Enders   \* the set of processes that find it pending

VARIABLES requested, \* whether the requested file is there
          completed, \* whether the completed file is there
          decision,  \* the decision
          history,   \* whether the history has the write
          files,     \* whether the data files are there
          work       \* a function from process to its phase, and the decision that counts for it

ASSUME IsFiniteSet(Enders)
ASSUME Cardinality(Writers) = 1 /\ Writers \cap Enders = {}

vars == <<requested, completed, decision, history, files, work>>

Processes == Writers \cup Enders
Decisions == {"none", "complete", "rolled back"}
Phases == {"idle", "deciding", "decided", "looking", "obeying", "ending", "dropping", "done"}

TypeOK == /\ requested \in BOOLEAN
          /\ completed \in BOOLEAN
          /\ decision \in Decisions
          /\ history \in BOOLEAN
          /\ files \in BOOLEAN
          /\ work \in [Processes -> [phase : Phases, won : Decisions, acknowledged : BOOLEAN]]

-------------------------------- (* ending *) -------------------------------
Does(p, phase) == work[p].phase = phase
To(p, phase) == work' = [work EXCEPT ![p].phase = phase]

Begin(p) == /\ Does(p, "idle")
            /\ p \in Enders => requested /\ ~completed
            /\ To(p, "deciding")
            /\ UNCHANGED <<requested, completed, decision, history, files>>

Wish(p) == IF p \in Writers THEN "complete" ELSE "rolled back"

\* Clauses: LOG-50.
Decide(p) == LET won == IF decision = "none" THEN Wish(p) ELSE decision
             IN /\ Does(p, "deciding")
                /\ decision' = won
                /\ work' = [work EXCEPT ![p].phase = "decided", ![p].won = won]
                /\ UNCHANGED <<requested, completed, history, files>>

\* Look at the timeline.
List(p) == /\ Does(p, "decided")
           /\ To(p, IF completed THEN "dropping" ELSE IF requested THEN "obeying" ELSE "looking")
           /\ UNCHANGED <<requested, completed, decision, history, files>>

\* Whether the history says that the write is complete.  Clauses: LOG-72.
IsArchived == history

\* Whether a decision that a write is complete is dropped if neither the timeline nor
\* the history knows the write.  Clauses: LOG-78.
DropsLate == TRUE

Look(p) ==
  LET late == work[p].won = "complete"
      next == IF IsArchived THEN "dropping"
              ELSE IF late /\ DropsLate THEN "dropping"
              ELSE "obeying"
  IN /\ Does(p, "looking")
     /\ To(p, next)
     /\ UNCHANGED <<requested, completed, decision, history, files>>

\* Clauses: LOG-52.
Obey(p) == /\ Does(p, "obeying")
           /\ IF work[p].won = "complete"
              THEN /\ completed' = TRUE
                   /\ work' = [work EXCEPT ![p].phase = "dropping", ![p].acknowledged = TRUE]
              ELSE To(p, "ending") /\ UNCHANGED completed
           /\ UNCHANGED <<requested, decision, history, files>>

\* A rollback deletes data files before timeline files.  Clauses: LOG-53.
RollBack(p) == /\ Does(p, "ending")
               /\ IF files THEN files' = FALSE /\ UNCHANGED <<requested, work>>
                  ELSE requested' = FALSE /\ To(p, "done") /\ UNCHANGED files
               /\ UNCHANGED <<completed, decision, history>>

Drop(p) == /\ Does(p, "dropping")
           /\ decision' = "none"
           /\ To(p, "done")
           /\ UNCHANGED <<requested, completed, history, files>>

------------------------------- (* archiving *) -----------------------------
Append == /\ completed /\ ~history
          /\ history' = TRUE
          /\ UNCHANGED <<requested, completed, decision, files, work>>

\* Clauses: LOG-72.
MayForgetRequested == history
MayForgetCompleted == history /\ ~requested

ForgetRequested == /\ requested /\ MayForgetRequested
                   /\ requested' = FALSE
                   /\ UNCHANGED <<completed, decision, history, files, work>>

ForgetCompleted == /\ completed /\ MayForgetCompleted
                   /\ completed' = FALSE
                   /\ UNCHANGED <<requested, decision, history, files, work>>

\* Whether the write has left the timeline.  Clauses: LOG-75.
HasLeft == ~requested /\ ~completed

ForgetDecision == /\ decision # "none" /\ HasLeft
                  /\ decision' = "none"
                  /\ UNCHANGED <<requested, completed, history, files, work>>

Init == /\ requested = TRUE /\ completed = FALSE /\ decision = "none" /\ history = FALSE /\ files = TRUE
        /\ work = [p \in Processes |-> [phase |-> "idle", won |-> "none", acknowledged |-> FALSE]]

Next == \/ \E p \in Processes :
             Begin(p) \/ Decide(p) \/ List(p) \/ Look(p) \/ Obey(p) \/ RollBack(p) \/ Drop(p)
        \/ Append \/ ForgetRequested \/ ForgetCompleted \/ ForgetDecision

ArchiveSpec == Init /\ [][Next]_vars
FairArchive == /\ ArchiveSpec
               /\ \A p \in Processes : WF_vars(Begin(p) \/ Decide(p) \/ List(p) \/ Look(p) \/ Obey(p) \/ RollBack(p) \/ Drop(p))
               /\ WF_vars(Append) /\ WF_vars(ForgetRequested) /\ WF_vars(ForgetCompleted) /\ WF_vars(ForgetDecision)

------------------------------ (* invariants *) -----------------------------
\* A write that readers take as complete has its files.  Clauses: LOG-50, LOG-78.
CompleteHasFiles == completed \/ history => files

\* Nothing of the write stays on the timeline.  Clauses: LOG-72, LOG-75.
TimelineIsLeft == <>[](HasLeft /\ decision = "none")

\* A write that was acknowledged is on the timeline or in the history.  Clauses: LOG-72.
AcknowledgedIsKnown == \A p \in Writers : work[p].acknowledged => completed \/ history
=============================================================================
