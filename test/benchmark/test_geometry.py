"""The geometry study: its worlds, its comparison with the truth and its bounds."""

import numpy as np
import pytest

from benchmark.geometry import figures, outcomes
from benchmark.geometry_world import field
from sparser_ros.backend.observability.observability import observe
from sparser_ros.backend.session.frame import frame_of
from sparser_ros.backend.session.solution import Location
from sparser_ros.config import RobustConfig
from sparser_ros.config.sparser import SparserConfig
from sparser_ros.graph import Estimate, squared_residuals
from sparser_ros.solver.robust import KERNELS, squared_threshold


def test_a_robot_among_known_beacons_is_located_and_right():
    some = outcomes(field(1, 4, 'curved', 0, seconds=41), 40)
    assert [one.verdict for one in some] == ['located']
    assert some[0].error_m < 1.0
    assert figures(some)['false'] == 0


@pytest.mark.parametrize('seed', [501, 502, 503])
def test_a_place_that_is_no_minimum_is_not_called_located(seed):
    """B is slid to a slope, where what it still believes determines its place well."""
    run = field(3, 4, 'curved', seed, seconds=60)
    sparser = SparserConfig(robots=list(run.graph.robots))
    frame = frame_of(run.graph, sparser)
    b = frame.segments.of_pose == 1

    def seen(away):
        moved = run.truth.translation + np.where(b[:, None], [away, 0.0], 0.0)
        estimate = Estimate(run.truth.rotation, moved, run.truth.landmarks)
        weights = KERNELS['gm'].weight(
            squared_residuals(frame.graph, estimate)['ranges'],
            squared_threshold(RobustConfig(), 1))
        return observe(
            frame.graph, estimate, frame.segments, frame.gauge, sparser.backend.observability,
            {'ranges': weights})

    assert seen(0.0).location[1] is Location.LOCATED
    slid = seen(2.0)
    assert slid.location[1] is Location.AMBIGUOUS
    assert slid.gap < 0.0
    assert slid.missing[1].startswith('another place fits its measurements better')


def test_straight_paths_tied_to_two_known_beacons_are_mirrored_as_a_whole():
    """The mirror image about the line through the beacons fits as well and must be seen."""
    found = outcomes(field(3, 2, 'straight', 3), 20, 3)
    assert len(found) == 3
    assert not any(one.located for one in found)
