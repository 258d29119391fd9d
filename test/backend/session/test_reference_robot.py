"""Who is located beside whom in a map whose gauge robot is far off."""

import numpy as np
import pytest

from sparser_ros.backend.observability.datum import Outside
from sparser_ros.backend.session.belief import without_the_doubtful
from sparser_ros.backend.session.scene import Scene
from sparser_ros.backend.session.solution import Location, RobotLocation
from sparser_ros.config.backend_config import BackendConfig

NAMES = ('A', 'B', 'C')


def scene(together, sigma=2.0, outside=Outside.HEIGHT, landmarks=()):
    """Newest poses and three keyframes of three robots; `together` move as one by sigma (m)."""
    owners = tuple('AAABBBCCC')
    position = np.random.default_rng(1).uniform(-20, 20, (12, 3))
    whose = [*NAMES, *owners]
    shared = np.zeros((12, 6))
    shared[[k for k, name in enumerate(whose) if name in together], 0] = sigma
    joint = np.outer(shared.ravel(), shared.ravel()) + 1e-4 * np.eye(72)
    return Scene(
        tuple(RobotLocation(name, Location.LOCATED) for name in NAMES), NAMES, position, landmarks,
        np.arange(12), joint, {}, False, owners, outside)


def located(one):
    config = BackendConfig()
    seen, _ = without_the_doubtful(one, None, config)
    return {state.robot for state in seen.robots if state.location is Location.LOCATED}


@pytest.mark.parametrize('outside', Outside)
def test_two_robots_that_know_each_other_are_located_without_the_gauge_robot(outside):
    assert located(scene('BC', outside=outside)) == {'B', 'C'}


@pytest.mark.parametrize('together', ['A', 'AC', 'B', 'ABC'])
def test_whoever_is_apart_is_not(together):
    apart = {'A': {'B', 'C'}, 'AC': {'A', 'C'}, 'B': {'A', 'C'}, 'ABC': set(NAMES)}[together]
    assert located(scene(together)) == apart
    assert located(scene(together, sigma=0.05)) == set(NAMES)
