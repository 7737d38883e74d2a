---------------------------- MODULE DeletedRows ----------------------------
(* DeletionVectors with the option `compaction.delete-ratio-threshold`: files with many
   deleted rows are rewritten without them, one by one, at the level where they are.

   A model replaces operators of Bucket by these.  *)
EXTENDS DeletionVectors

CONSTANT DeletedPercent  \* the threshold, in percent

ASSUME DeletedPercent \in 0..100

DeletedCount(b, e) == Cardinality({mark \in b.vectors : mark[1] = File(e)})
HasMany(b, e) == 100 * DeletedCount(b, e) > DeletedPercent * Len(Records(b, File(e)))

\* A pick of such files, for all sizes that the files may have.  With a run of level 0 another
\* rule picks something.  Clauses: CMP-28, CMP-29.
PurgePicks(b) ==
  LET runs  == Runs(b, b.live)
      many  == {e \in b.live : HasMany(b, e)}
      level == Max({Level(e) : e \in many})
  IN IF many = {} \/ ZeroCount(runs) > 0 THEN {}
     ELSE {[entries |-> {e \in many : Level(e) = level}, level |-> level, full |-> FALSE, purges |-> TRUE]}

PicksDeletedRowsToo(b) == AllowedPicks(b) \cup PurgePicks(b) \cup FullPicks(b)
=============================================================================
