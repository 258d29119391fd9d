"""Sparse matrices: products, orderings, symbolic analysis, Cholesky factors."""
