"""Demonstrations around the node: a player of bags, an observer, and both as one command."""
