"""What can happen between two operations of a commit on the store."""
