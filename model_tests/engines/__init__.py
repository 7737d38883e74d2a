"""The merge engines that compute columns: their laws, tables of theirs, and tables of Paimon."""
