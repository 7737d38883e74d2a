"""A hunt: fresh seeds of everything that draws, by turns, for as long as there is time."""
