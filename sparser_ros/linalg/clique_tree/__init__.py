"""A Cholesky factor as a tree of cliques whose parts can be replaced."""
