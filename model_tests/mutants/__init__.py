"""Faults, injected one at a time into the reference, that the machine must find. None of this ships."""
