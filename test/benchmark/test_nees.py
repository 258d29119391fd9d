"""Covariances are honest on simulation: normalised errors are chi-square."""

import numpy as np
import pytest

from benchmark import nees

RUNS = 12
CONFIDENCE = 0.999
"""Of each of 24 means; the benchmark's 95 % would fail once in a run of these tests."""


@pytest.mark.parametrize('case', nees.CASES, ids=lambda case: case.name)
def test_normalised_errors_lie_in_their_band(case):
    values = np.array([list(nees.normalised_errors(case, 1000 + seed)) for seed in range(RUNS)])
    low, high = nees.band(case.dimension, RUNS, CONFIDENCE)
    means = values.mean(axis=0)
    assert np.all((low < means) & (means < high)), means
    # Covariances a quarter as large would be found out.
    assert np.all(4 * means > high)


def test_claims_on_real_sets_are_compared_with_errors():
    graph = nees.world(nees.Case(2, True, 0.0), 3)
    claimed, found = list(nees.calibration(graph))
    assert claimed['claimed_m'] == pytest.approx(claimed['found_m'], rel=0.5)
    assert claimed['inside95'] > 0.8 and found['inside95'] >= claimed['inside95']
