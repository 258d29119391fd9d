"""Demonstrations around the node: a player of bags, an observer of the node, and `./dev/demo`."""
