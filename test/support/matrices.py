"""Seeded sparse matrices."""

import numpy as np
import scipy.sparse as sp


def graph_matrix(seed: int, n: int, density: float) -> sp.csc_matrix:
    """A chain with random closures: the Laplacian of a weighted graph, grounded."""
    random = np.random.default_rng(seed)
    extra = random.integers(0, n, (int(density * n), 2))
    i = np.concatenate([np.arange(n - 1), extra[:, 0]])
    j = np.concatenate([np.arange(1, n), extra[:, 1]])
    weight = random.uniform(0.1, 10, len(i)) * (i != j)
    A = sp.csr_matrix((np.ones(len(i)), (np.arange(len(i)), i)), shape=(len(i), n))
    A = A - sp.csr_matrix((np.ones(len(j)), (np.arange(len(j)), j)), shape=(len(j), n))
    return sp.csc_matrix(A.T @ sp.diags(weight) @ A + 0.1 * sp.eye(n))
