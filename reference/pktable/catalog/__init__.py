"""SnapshotLog: what is live, what a read must look at, and how a change becomes visible."""
