"""The specification in Python: vocabulary, errors, options, interface, oracle. Uses the standard library only."""
