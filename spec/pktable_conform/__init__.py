"""The conformance kit: hold an implementation in any language against the clauses, the oracle and stored tables.

`runner` speaks with a process, `reading` gives it the tables of `archive`, `writing` histories whose every step `judge`
compares with the oracle, `report` tells the outcomes. The kit imports the specification and the standard library only.
"""
