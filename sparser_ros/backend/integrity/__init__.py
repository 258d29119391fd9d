"""Whether the map can be believed, and who is to blame if not: tests of sources and the gate."""
