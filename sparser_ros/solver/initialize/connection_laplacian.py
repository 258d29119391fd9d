"""The connection Laplacian: the quadratic form of the measured relative rotations alone.

x^T L x = sum of kappa |x_j - R_ij^T x_i|^2 over (n d, p) rows x. Its lowest eigenvectors are nearly
the rotations of a consistent graph, and its factor takes d x d blocks where that of Q takes
(d + 1) x (d + 1).
"""

from __future__ import annotations

import numpy as np

from ...array_types import Array
from ...graph import Graph
from ...linalg.block.block_cholesky import BlockCholesky
from ...linalg.dense.tangent_kernels import connect, pair_slots
from .. import thresholds


class ConnectionLaplacian:
    """(L + shift)^-1 of a graph's relative rotations."""

    def __init__(self, graph: Graph, analysed: BlockCholesky) -> None:
        """`analysed` has a block for every pose and landmark, in this order."""
        rel, d, n = graph.relative_poses, graph.dimension, graph.n_poses
        symbolic = analysed.sized(d)
        starts, rows = symbolic.starts, symbolic.rows
        slots = pair_slots(starts, rows, symbolic.rank[np.stack([rel.i, rel.j], axis=1)])
        blocks = np.zeros((len(rows), d, d))
        connect(slots, rel.rotation, rel.kappa, blocks)
        # Rows are sorted: the first block of a column is the one on the diagonal.
        diagonal = starts[:-1, None], np.arange(d), np.arange(d)
        shift = thresholds.current().connection_laplacian_shift
        own = blocks[diagonal]
        blocks[diagonal] = np.where(own > 0, (1 + shift) * own, 1.0)
        self.factor = symbolic.factorize(blocks, np.arange(n * d))

    def apply(self, v: Array, out: Array) -> Array:
        """out = (L + shift)^-1 v for v (n d, p)."""
        return self.factor.solve(v, out)
