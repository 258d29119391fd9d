"""Linear algebra under the solver: sparse Cholesky, array backends, compiled kernels."""
