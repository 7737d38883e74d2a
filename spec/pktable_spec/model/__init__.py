"""The oracle, in two layers: the meaning (a fold) and the mechanism (a transition system).

Imports nothing but the standard library and the vocabulary of `pktable_spec`.
"""
