"""Motion tells which robot carries which radio, and says where it does not."""

import numpy as np
import pytest

from sparser_ros.frontend.draft_config import carried_radios

BEACONS = {'b1': (6.0, 1.0), 'b2': (-4.0, 5.0), 'b3': (0.0, -7.0)}


def path(seconds, seed):
    """A smooth track of a few metres, (n, 2)."""
    rng = np.random.default_rng(seed)
    phase, rate = rng.uniform(0, 6, 2), rng.uniform(0.15, 0.4, 2)
    return 2.0 * np.stack([np.sin(rate[k] * seconds + phase[k]) for k in (0, 1)], axis=1)


def world(seed, carried, *, beacons=BEACONS, bias=0.3, sigma=0.08):
    """Tracks in frames of their own, and ranges of all pairs; `carried`: radio -> robot."""
    rng = np.random.default_rng(seed)
    seconds = np.linspace(0, 20, 80)
    true = {'A': path(seconds, seed), 'B': path(seconds, seed + 50) + np.array([3.0, 2.0]),
            'C': np.tile([4.0, -3.0], (80, 1))}
    tracks = {}
    for robot, at in true.items():
        turn = rng.uniform(-3, 3)
        c, s = np.cos(turn), np.sin(turn)
        tracks[robot] = np.column_stack([seconds, (at - at[0]) @ [[c, s], [-s, c]]])
    places = {**{name: np.tile(at, (80, 1)) for name, at in beacons.items()},
              **{radio: true[robot] for radio, robot in carried.items()}}
    names = sorted(places)
    ranges = {}
    for k, a in enumerate(names):
        for b in names[k + 1:]:
            distance = np.linalg.norm(places[a] - places[b], axis=1) + bias
            distance += rng.normal(0, sigma, 80) + 4.0 * (rng.random(80) < 0.05)
            ranges[a, b] = np.column_stack([seconds, distance])
    return tracks, ranges


@pytest.mark.parametrize('seed', range(3))
def test_radios_are_found_by_motion(seed):
    found = carried_radios(*world(seed, {'r1': 'A', 'r2': 'B', 'r3': 'C'}))
    assert found.robot == {'r1': 'A', 'r2': 'B'}
    assert found.standing == ('C',) and not found.doubtful
    # One robot, and anchors that do not range each other: all others could ride as well, were they
    # not differently far from it.
    tracks, ranges = world(seed, {'r1': 'A'})
    star = {pair: values for pair, values in ranges.items() if 'r1' in pair}
    found = carried_radios({'A': tracks['A']}, star)
    assert found.robot == {'r1': 'A'} and not found.doubtful


@pytest.mark.parametrize(('tag', 'anchor'), [
    ('tag', 'x'), ('x', 'anchor_3'), ('A', 'x'), ('uwb_A', 'x'), ('A_0', 'ANCHOR-1'),
    ('A', 'tag1')])
def test_names_settle_what_motion_does_not(tag, anchor):
    tracks, ranges = world(0, {'r1': 'A'}, beacons={'b1': (6.0, 1.0)})
    found = carried_radios({'A': tracks['A']}, {(anchor, tag): ranges['b1', 'r1']})
    assert found.robot == {tag: 'A'} and not found.doubtful


def test_a_number_is_no_proof():
    """Anchors 1, 2, 3 and tag 4 on robot 1: the ranges say which radio follows the robot."""
    tracks, ranges = world(1, {'r1': 'A'})
    number = {'b1': '1', 'b2': '2', 'b3': '3', 'r1': '4'}
    found = carried_radios({'1': tracks['A']}, {
        (number[a], number[b]): values for (a, b), values in ranges.items()})
    assert found.robot == {'4': '1'}
