"""Runners of the conformance kit, the maker of its fixtures, and readers with one fault each."""
