"""The same work on Paimon's Spark connector and on pktable, stage by stage in turn: ``make bench-paimon``."""
