"""Linear algebra under the solver: factors of sparse matrices, array backends, compiled kernels.

- `ordering`: orders of elimination, by CHOLMOD, and patterns of factors; the only module that
  knows scikit-sparse.
- `cholesky`, `fronts`: matrices of b x b blocks, factorised as a whole. Dense fronts where the
  factor fills in, single columns of blocks elsewhere: with fronts alone a whole solve of a pose
  graph takes a tenth longer.
- `clique_tree`: a factor of which parts are replaced while measurements come in, and
  marginal covariances from it. `term_kernels` forms its fronts from the terms of the cost.

`arrays` has what a trust region asks of a device, on the CPU by `trust_region_kernels` and
`sparse_kernels`; `gpu/` has the same on a CUDA device.
"""
