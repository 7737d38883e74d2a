"""Deterministic simulation: the real code over a store whose every operation is a point of choice.

Several actors, each with its own handles and caches, run in one thread. Between two operations on the store any other
actor may run. An operation may fail, be done without an answer, arrive late, or be the last one of its actor.
"""
