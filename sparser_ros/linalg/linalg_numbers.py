"""Every number that `linalg/` chose itself: value, unit, reason, source.

None of them changes a result beyond rounding; they decide how fast it comes. Numbers that compiled
loops take as constants stand beside the loop, whose file numba's cache watches.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..number_registry import NumberRegistry, number


@dataclass(frozen=True)
class LinalgNumbers:
    """Numbers of orderings, factorisations and device products."""

    # Orderings.
    reduced_from_nodes: int = number(
        20_000, 'large', 'nodes with three neighbours or more, from which chains and stars are '
        'eliminated before the rest is ordered; AMD of the whole takes less time on smaller graphs',
        unit='nodes', off=2**62)
    metis_from_multiplications: int = number(
        40_000, 'large', "multiplications of a factorisation in AMD's order, for each node to "
        'order, from which METIS pays: it saves about half of them where they are many, and takes '
        'as long as 10 000 multiplications a node', unit='multiplications per node', off=2**62)
    star_rounds: int = number(
        2, 'large', 'times that stars are eliminated; the nodes left by then have many neighbours',
        unit='rounds', off=0)
    nested_dissection_nodes: int = number(
        200, 'incremental', 'nodes above which METIS orders a clique tree instead of minimum '
        'degree; below, there is next to nothing to dissect', unit='nodes',
        source="CHOLMOD's own nested dissection stops at 200 nodes", off=2**62)

    # Cliques and fronts.
    merged_nodes_at_most: int = number(
        16, 'incremental', 'inner nodes of a merged clique that may hold `merged_zero_share` of '
        'zeros: 16 poses in the plane are 48 rows, a dense triangle of 9 kB', unit='nodes')
    merged_nodes_always: int = number(
        4, 'incremental', 'inner nodes up to which cliques are merged whatever zeros this fills: '
        'walking over a clique costs more than the arithmetic of so few rows', unit='nodes')
    merged_zero_share: float = number(
        0.4, 'incremental', 'largest share of zeros in a merged clique of more inner nodes')
    wasted_ratio: float = number(
        1.5, 'incremental', 'floats stored, those of replaced cliques included, over floats in '
        'use, above which everything is ordered and laid out again; it bounds the memory')
    dense_front_rows: int = number(
        120, 'factors', 'rows of scalars from which a group of columns is eliminated as a dense '
        'front; below, the bookkeeping costs more than dense arithmetic saves (chains and '
        'lattices of poses)', unit='rows', off=10**9)
    supernodal_multiplications: int = number(
        200, 'factors', "multiplications per entry of the factor, from which CHOLMOD works on "
        'supernodes with BLAS. Its own choice changes over at 40; between the two, supernodes '
        'padded with zeros took three times as long to factorise as single columns and twice as '
        'long to solve with (factors of pose graphs)', unit='multiplications per entry',
        off=2**62)

    # CUDA devices.
    gpu_threads_per_block: int = number(
        256, 'gpu', 'threads of a block; a multiple of the warp, few enough for every device',
        unit='threads', source='estimate, not measured')
    gpu_blocks_per_processor: int = number(
        8, 'gpu', 'most blocks of a launch for each multiprocessor; loops stride over the rest',
        unit='blocks', source='estimate, not measured')
    gpu_long_row_entries: int = number(
        24, 'gpu', 'mean entries of a row from where a whole warp shares it', unit='entries',
        source='estimate, not measured')
    gpu_inverse_growth: tuple[float, ...] = number(
        (1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 9.0, 13.0), 'gpu', "bounds tried on the entries of a "
        "subtree's inverse over those of its part of L; the cheapest is taken",
        source='estimate, not measured')
    gpu_product_entries: float = number(
        250_000.0, 'gpu', 'entries that one more product is worth: a launch within a CUDA graph '
        'takes about 2 us, in which a data-centre GPU streams so many entries', unit='entries',
        source='estimate, not measured')
    gpu_dense_subtree_rows: int = number(
        48, 'gpu', 'rows from where a subtree is inverted as a dense matrix', unit='rows',
        source='estimate, not measured')
    gpu_dense_subtree_share: float = number(
        0.25, 'gpu', 'least share of the entries of such a subtree that are there',
        source='estimate, not measured')

    # Memory.
    returned_from_bytes: int = number(
        2**28, 'memory', 'size of a freed piece of memory from which a process that does nothing '
        'but solve returns it to the system', unit='bytes', source='memory of a robot: some GB')


REGISTRY = NumberRegistry(LinalgNumbers)


def linalg_numbers() -> LinalgNumbers:
    """The numbers in force."""
    return REGISTRY.current()
