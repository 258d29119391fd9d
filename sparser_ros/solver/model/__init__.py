"""The quadratic problem and its Schur complement (paper, sections III and IV)."""
