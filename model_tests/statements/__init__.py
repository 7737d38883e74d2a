"""UPDATE, DELETE, MERGE, overwrite and truncate, against what plain Python makes of the same rows."""
