"""The TLA+ modules of spec/tla, checked by TLC and held against the oracle.

`models` reads what is to be checked, `checker` runs TLC, `values` reads what it prints; `state_graph`
compares reachable graphs, `counterexamples` keeps traces as histories, `traces` validates what an
implementation did. ``python -m model_tests.tlc`` runs all of it, also ``make tla``.
"""
