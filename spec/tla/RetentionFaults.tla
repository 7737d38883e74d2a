--------------------------- MODULE RetentionFaults --------------------------
(* Faults of Retention, each one operator done wrong; see Faults. *)
EXTENDS Retention

\* An expiry lists tags before it puts its fence.  G1.
TagsKnown == All(Needs, {tags[t] : t \in Tags} \ {0})
NoTags == <<"fenced", "copying", "removing", "dropping", "snapshots", "ended", "copies", "branches", "deleting">>

\* An expiry lists tags before the snapshots of which they are copies.  G11.
TagsFirst == <<"fenced", "copying", "removing", "dropping", "tags", "snapshots", "ended", "copies", "branches", "deleting">>

\* An expiry lists branches before the tags of which they are made.  G2.
BranchesFirst ==
  <<"fenced", "copying", "removing", "dropping", "snapshots", "branches", "tags", "ended", "copies", "deleting">>

\* An expiry does not look at consumers.  G3.
AllAreRead == Ids

\* The maker of a tag does not look after its put.  G4.
NoLookForTag(id) == TRUE

\* A consumer puts no fence before it looks.  G5.
NoFence == fences

\* A consumer does not look after its fence.  G6.
NoLookForConsumer(id) == TRUE

\* A copy counts that was put after others had removed it.  G7.
LateCounts(id) == TRUE

\* An expiry removes snapshots before it puts their copies.  G8.
RemovesFirst ==
  <<"removing", "fenced", "copying", "dropping", "snapshots", "tags", "ended", "copies", "branches", "deleting">>

\* An expiry does not list the snapshots that stay.  G9.
NoSnapshots == <<"fenced", "copying", "removing", "dropping", "tags", "ended", "copies", "branches", "deleting">>

\* Who drops a tag notes none of its files.  G10.
NotesNothing(id) == {}

\* An expiry whose fence is taken puts it again as it was.  G13.
PutsItAgain(e) == jobs[e]

\* An expiry does not see that another fence came between.  G12.
AnyFence(e) == TRUE
=============================================================================
