"""The quadratic problem and its Schur complement (paper, sections 3 to 5)."""
