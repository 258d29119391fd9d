"""Starts of a solve: random, odometry, chordal, spectral, and from a thinned graph."""
