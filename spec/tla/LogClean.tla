------------------------------ MODULE LogClean -----------------------------
(* Cleans of one file group of a Hudi table, while others compact it and read it.

   Each compaction gives the group a new base file, with which a file slice begins.  A
   read as of an instant reads the latest slice that began by then.  A clean chooses an
   instant that stays readable, puts a plan with it on the timeline, and deletes the
   slices before the one that is read as of it.

   A reader loads the timeline, lists files, looks for cleans, and then reads.  It
   begins again if there is a clean that its timeline lacks.

   The subtle case: a compaction that was planned is executed after a reader has loaded
   the timeline, and the slice before it is cleaned.  The reader knows one of both
   slices and lists the other one, also if its instant is retained.  *)
EXTENDS Naturals, FiniteSets

CONSTANTS InstantLimit,  \* how many instants there are
          CleanLimit     \* how many cleans there are

VARIABLES now,      \* the last instant that is given
          bases,    \* the set of the instants of complete compactions
          planned,  \* the instant of the planned compaction, 0 without
          there,    \* the set of slices whose files are there
          retained, \* from which instant on the table is readable, by the plans of cleans
          doomed,   \* the set of slices that plans of cleans name
          cleans,   \* the number of cleans whose plans are on the timeline
          cleaner,  \* its phase, the instant that is to stay readable, the slices to delete
          reader    \* its phase, instant, the compactions and cleans it knows, the files it lists

ASSUME InstantLimit \in Nat
ASSUME CleanLimit \in Nat

vars == <<now, bases, planned, there, retained, doomed, cleans, cleaner, reader>>

Instants == 1..InstantLimit
NoClean == [phase |-> "idle", retained |-> 0, gone |-> {}]
NoRead == [phase |-> "idle", at |-> 0, known |-> {}, listed |-> {}, doomed |-> {}, cleans |-> 0]

TypeOK == /\ now \in Instants
          /\ bases \in SUBSET Instants
          /\ planned \in 0..InstantLimit
          /\ there \in SUBSET Instants
          /\ retained \in 0..InstantLimit
          /\ doomed \in SUBSET Instants
          /\ cleans \in 0..CleanLimit
          /\ cleaner \in [phase : {"idle", "chosen", "deleting"}, retained : 0..InstantLimit, gone : SUBSET Instants]
          /\ reader \in [phase : {"idle", "loaded", "listed", "looked", "checked", "refused", "read", "missing"},
                         at : 0..InstantLimit, known : SUBSET Instants, listed : SUBSET Instants,
                         doomed : SUBSET Instants, cleans : 0..CleanLimit]

Last(set) == CHOOSE one \in set : \A other \in set : other <= one
\* The slice that is read as of an instant.
SliceAt(set, at) == Last({one \in set : one <= at})

------------------------------ (* compacting *) -----------------------------
Commit == /\ now < InstantLimit
          /\ now' = now + 1
          /\ UNCHANGED <<bases, planned, there, retained, doomed, cleans, cleaner, reader>>

Plan == /\ now < InstantLimit /\ planned = 0
        /\ now' = now + 1 /\ planned' = now + 1
        /\ UNCHANGED <<bases, there, retained, doomed, cleans, cleaner, reader>>

Execute == /\ planned # 0
           /\ bases' = bases \cup {planned} /\ there' = there \cup {planned} /\ planned' = 0
           /\ UNCHANGED <<now, retained, doomed, cleans, cleaner, reader>>

------------------------------- (* cleaning *) ------------------------------
\* The first slice that stays, so that the table is readable as of an instant.  Clauses: LOG-66.
Kept(at) == SliceAt(bases, at)

\* Clauses: LOG-69.
Choose(at) == /\ cleaner.phase = "idle" /\ cleans < CleanLimit
              /\ planned # 0 => at <= planned
              /\ LET gone == {one \in bases \cap there : one < Kept(at)}
                 IN /\ gone # {}
                    /\ cleaner' = [phase |-> "chosen", retained |-> at, gone |-> gone]
              /\ UNCHANGED <<now, bases, planned, there, retained, doomed, cleans, reader>>

\* The files that a plan names.  Clauses: LOG-68.
Named == cleaner.gone

PutPlan == /\ cleaner.phase = "chosen"
           /\ retained' = IF cleaner.retained > retained THEN cleaner.retained ELSE retained
           /\ doomed' = doomed \cup Named
           /\ cleaner' = [cleaner EXCEPT !.phase = "deleting"]
           /\ cleans' = cleans + 1
           /\ UNCHANGED <<now, bases, planned, there, reader>>

\* Clauses: LOG-68.
MayDelete == cleaner.phase = "deleting"

Delete == /\ MayDelete
          /\ \E one \in cleaner.gone \cap there : there' = there \ {one}
          /\ UNCHANGED <<now, bases, planned, retained, doomed, cleans, cleaner, reader>>

Finish == /\ cleaner.phase = "deleting" /\ cleaner.gone \cap there = {}
          /\ cleaner' = NoClean
          /\ UNCHANGED <<now, bases, planned, there, retained, doomed, cleans, reader>>

-------------------------------- (* reading *) ------------------------------
Load(at) == /\ reader.phase = "idle"
            /\ reader' = [NoRead EXCEPT !.phase = "loaded", !.at = at, !.known = bases, !.doomed = doomed,
                                           !.cleans = cleans]
            /\ UNCHANGED <<now, bases, planned, there, retained, doomed, cleans, cleaner>>

\* The phases before files are listed, and before cleans are looked for.  Clauses: LOG-77.
BeforeList == "loaded"
BeforeLook == "listed"

List == /\ reader.phase = BeforeList
        /\ reader' = [reader EXCEPT !.phase = IF BeforeList = "loaded" THEN "listed" ELSE "checked", !.listed = there]
        /\ UNCHANGED <<now, bases, planned, there, retained, doomed, cleans, cleaner>>

\* Whether the reader begins again.  Clauses: LOG-77.
IsOutdated == reader.cleans # cleans

Look == /\ reader.phase = BeforeLook
        /\ LET next == IF BeforeLook = "listed" THEN "checked" ELSE "looked"
           IN reader' = IF IsOutdated THEN NoRead
                        ELSE [reader EXCEPT !.phase = IF reader.at < retained THEN "refused" ELSE next]
        /\ UNCHANGED <<now, bases, planned, there, retained, doomed, cleans, cleaner>>

\* The slice that the reader takes: of those that it knows and has listed.
Found == {one \in reader.known \cap reader.listed : one <= reader.at}

Open == /\ reader.phase = "checked"
        /\ reader' = [reader EXCEPT !.phase = IF Last(Found) \in there THEN "read" ELSE "missing"]
        /\ UNCHANGED <<now, bases, planned, there, retained, doomed, cleans, cleaner>>

Init == /\ now = 1 /\ bases = {1} /\ planned = 0 /\ there = {1} /\ retained = 0 /\ doomed = {} /\ cleans = 0
        /\ cleaner = NoClean /\ reader = NoRead

Next == \/ Commit \/ Plan \/ Execute \/ PutPlan \/ Delete \/ Finish \/ List \/ Look \/ Open
        \/ \E at \in 1..now : Choose(at) \/ Load(at)

CleanSpec == Init /\ [][Next]_vars

------------------------------ (* invariants *) -----------------------------
\* The slice of each retained instant is there.  Clauses: LOG-66.
RetainedIsThere == \A at \in 1..now : at >= retained => SliceAt(bases, at) \in there

\* A reader that was not refused takes the slice that is read as of its instant.  Clauses: LOG-67.
ReadIsWhole == reader.phase \in {"checked", "read"} => SliceAt(reader.known, reader.at) \in reader.listed

\* A file that is missing is named by a clean that the reader does not know.  Clauses: LOG-76.
MissingIsCleaned == reader.phase = "missing" => Last(Found) \in doomed \ reader.doomed
=============================================================================
