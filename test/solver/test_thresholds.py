"""The table of numbers: complete, overridable, and read by the solver."""

import threading

import pytest
from helpers import world

from sparser_ros.config import SolverConfig
from sparser_ros.linalg import linalg_numbers, term_kernels
from sparser_ros.solver import solve, thresholds


def test_every_number_says_what_it_is():
    for name, (value, info) in thresholds.numbers().items():
        assert len(info.reason) > 20 and info.source and info.group, name
        assert info.off is None or info.off != value, name


def test_numbers_of_all_rooms_are_known_by_one_name():
    below = linalg_numbers.REGISTRY.numbers()
    assert set(thresholds.REGISTRY.numbers()).isdisjoint(below)
    with thresholds.override(dense_front_rows=7, cg_forcing=0.5) as changed:
        assert linalg_numbers.linalg_numbers().dense_front_rows == 7
        assert changed.cg_forcing == thresholds.current().cg_forcing == 0.5
    assert linalg_numbers.linalg_numbers() == linalg_numbers.LinalgNumbers()


def test_compiled_loops_have_the_declared_values():
    assert thresholds.current().bearing_least_length_m == term_kernels._LEAST_LENGTH_M


@pytest.mark.parametrize('change', [
    {'cg_forcing': 0.9}, {'good_ratio': 1e9, 'radius_shrink': 0.01, 'poor_ratio': 1e8},
    {'small_gains': 1}])
def test_numbers_of_the_trust_region_are_read(change):
    graph, config = world(11, 2, noise=1.0), SolverConfig(init='random')
    plain = solve(graph, config).stats
    with thresholds.override(**change):
        other = solve(graph, config).stats
    assert (other.cg_steps, other.iterations) != (plain.cg_steps, plain.iterations)


def test_an_override_ends_with_its_block_even_by_an_error():
    default = thresholds.current()
    with pytest.raises(RuntimeError), thresholds.override(random_starts=1):
        assert thresholds.current().random_starts == 1
        with thresholds.override(rounding_gap=3.0):
            assert thresholds.current().random_starts == 1
        raise RuntimeError
    assert thresholds.current() is default
    with pytest.raises(TypeError), thresholds.override(no_such_number=1):
        pass


def test_another_thread_does_not_see_an_override():
    seen = []
    with thresholds.override(random_starts=1):
        thread = threading.Thread(target=lambda: seen.append(thresholds.current().random_starts))
        thread.start()
        thread.join()
    assert seen == [thresholds.Thresholds().random_starts]


def test_the_solver_reads_them():
    graph = world(11, 2, noise=1.0)
    with thresholds.override(relaxation_rank=3):
        assert solve(graph, SolverConfig()).stats.rank == 3
    assert solve(graph, SolverConfig()).stats.rank == 5
