"""For each folder of the reference, the tests that guard it and run in a minute: `make room ROOM=catalog`."""
