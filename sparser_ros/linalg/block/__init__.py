"""Cholesky factors of matrices made of small dense blocks."""
