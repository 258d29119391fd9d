"""One absurd message of any kind moves no map and withdraws nobody; what it was is told."""

import numpy as np
import pytest
from frontend_world import SECOND, Robot, config, ns, range_sample

from sparser_ros.backend.replay.replay import Replay
from sparser_ros.backend.session.session import Session
from sparser_ros.backend.session.solution import Location
from sparser_ros.frontend import Frontend
from sparser_ros.frontend.samples import FrameSample

CORNERS = {'L1': (-30.0, -25.0), 'L2': (40.0, -20.0), 'L3': (35.0, 45.0), 'L4': (-35.0, 30.0)}
SEEN = np.array([6.0, -3.0, 0.0])
ARM = np.array([0.2, 0.1, 0.0])
END_S, SOLVED_EVERY_S = 30, 4.0
FIX_SIGMA_M = 0.1
ODOMETRY = np.diag([1e-4] * 3 + [1e-6] * 3)
"""Variances between two messages, m^2 and rad^2."""


def far(metres):
    return np.array([metres, -0.3 * metres, 0.0])


def frame(xyz, quat=(0.0, 0.0, 0.0, 1.0)):
    """Where the antenna sits on the robot."""
    return FrameSample('A/base_link', 'A/uwb', np.asarray(xyz), np.array(quat))


class Drive:
    """A robot among beacons that are known, with position fixes, closures and sightings."""

    def __init__(self, *, beacons=True):
        radios = {name: {'beacon': name, 'position': [*place, 0.0]}
                  for name, place in CORNERS.items()}
        self.body = Robot('A', 2, 4)
        settings = config(
            robots=['A'], odometry_noise='pose_increment', radios=radios if beacons else {},
            fixes={'topic': '/{robot}/fix'})
        self.replay = Replay(settings, Frontend(settings), Session(settings))
        self.beacons, self.errors = beacons, []
        """Errors of the newest pose in m, of the solves at which the robot was located."""

    def fix(self, t, offset=0.0, **changes):
        """A fix with noise, from a receiver of positions."""
        noise = FIX_SIGMA_M * np.random.default_rng(round(t * 10)).normal(size=3)
        place = self.body.antenna(t, np.zeros(3)) + noise + offset
        return self.body.fix(t, position_xyz=place * [1, 1, 0], **{
            'position_covariance': np.eye(3) * FIX_SIGMA_M**2, 'quat_xyzw': None, **changes})

    def play(self, extra=(), fixes=None):
        """Drive to the end; `extra` are (seconds, sample), `fixes` samples by second."""
        frontend, due = self.replay.frontend, SOLVED_EVERY_S
        waiting = sorted([(0.0, frame(ARM)), *extra], key=lambda pair: pair[0])
        for step in range(10 * END_S + 1):
            t = step / 10
            while waiting and waiting[0][0] <= t:
                frontend.add(waiting.pop(0)[1])
            frontend.add(self.body.odometry(t, ODOMETRY))
            rng = np.random.default_rng(step)
            for name, place in CORNERS.items() if self.beacons and step % 2 == 0 else ():
                distance = np.linalg.norm(self.body.antenna(t, ARM)[:2] - place)
                frontend.add(range_sample(
                    'A', name, t, distance + rng.normal(0, 0.05),
                    frame_id='A/uwb'))
            if step % 10 == 0:
                frontend.add((fixes or {}).get(step // 10) or self.fix(t))
                frontend.add(self.body.sighting(
                    t, 'door', SEEN + np.append(rng.normal(0, 0.1, 2), 0)))
            if t >= due:
                self.solve(t)
                due += SOLVED_EVERY_S
        self.solve(END_S, flush=True)
        self.solve(END_S, flush=True, full=True)
        return self

    def solve(self, t, **options):
        self.replay.solve(t, **options)
        solution = self.replay.solution
        if solution is not None and solution.robots[0].location is Location.LOCATED:
            self.errors.append(float(self._distances()[-1]))

    def _distances(self):
        poses = self.replay.graph.poses.stamp_ns
        truth = np.array([self.body.pose((s - ns(0)) / SECOND)[1][:2] for s in poses.tolist()])
        return np.linalg.norm(self.replay.solution.estimate.translation - truth, axis=1)

    @property
    def error_m(self):
        """Largest error of any keyframe at the end."""
        return float(self._distances().max())

    @property
    def located(self):
        return self.replay.solution.robots[0].location is Location.LOCATED

    @property
    def rejected(self):
        return [one.type for one in self.replay.solution.rejected]

    @property
    def told(self):
        return ' '.join(one.text for one in (
            *(one for _, one in self.replay.frontend.events), *self.replay.frontend.findings))

    def dropped(self, kind):
        return dict(self.replay.frontend.counters[kind].dropped)


BODY = Robot('A', 2, 4)
SURE = 1e-12
"""m^2 and rad^2: as certain as a message can claim to be."""
ABSURD = {
    'odometry of huge noise': ('', BODY.odometry(20.05, np.eye(6) * 1e30)),
    'a range': ('ranges', range_sample('A', 'L1', 20.05, 190.0, variance=SURE)),
    'a range to a stranger': ('', range_sample('A', 'L9', 20.05, 150.0, variance=SURE)),
    'a sighting': ('sightings', BODY.sighting(
        20.5, 'door', SEEN, position_xyz=far(15.0), covariance=np.eye(3) * SURE)),
    'a sighting of a known beacon': ('sightings', BODY.sighting(
        20.5, 'L1', SEEN, position_xyz=far(15.0), covariance=np.eye(3) * SURE)),
    'a closure over 50 m': ('relative_poses', BODY.closure(
        2.0, BODY, 20.0, position_xyz=far(50.0), covariance=np.eye(6) * SURE)),
    'a closure that turns': ('relative_poses', BODY.closure(
        2.0, BODY, 20.0, quat_xyzw=np.array([0, 0, 1.0, 0]), covariance=np.eye(6) * SURE)),
    'a fix 5 km off': ('point_priors', BODY.fix(
        20.05, position_xyz=far(5e3), position_covariance=np.eye(3) * SURE,
        quat_xyzw=None)),
    'a fix that turns': ('pose_priors', BODY.fix(
        20.05, quat_xyzw=np.array([0, 0, 1.0, 0]), orientation_covariance=np.eye(3) * SURE)),
}
"""Messages that reach the map, and the table in which it rejects them, if any."""


@pytest.mark.parametrize('name', ABSURD)
def test_one_absurd_message_moves_no_map(name):
    where, sample = ABSURD[name]
    drive = Drive().play([(20.05, sample)])
    assert drive.located and drive.error_m < 0.1
    assert len(drive.errors) == len(drive.replay.history) and max(drive.errors) < 0.2
    assert drive.rejected == ([where] if where else [])


def test_what_is_dropped_before_the_map_leaves_it_as_it_is():
    turned = (0.0, 0.0, 1.0, 0.0)
    drive = Drive().play([
        (8.05, BODY.odometry(8.05, ODOMETRY, position_xyz=far(1e3))),
        (12.05, BODY.closure(2.0, BODY, 12.0, position_xyz=far(1e6))),
        (16.05, frame(far(20.0))),
        (20.05, BODY.odometry(20.05, ODOMETRY, quat_xyzw=np.array(turned))),
        (24.05, frame(ARM, turned))])
    assert drive.located and drive.error_m < 0.1
    assert len(drive.errors) == len(drive.replay.history) and max(drive.errors) < 0.2
    assert not drive.rejected
    assert {kind: sum(drive.dropped(kind).values()) for kind in (
        'odometry', 'closures', 'frames')} == {'odometry': 2, 'closures': 1, 'frames': 2}


@pytest.mark.parametrize('metres', [5.0, 4.8e6])
@pytest.mark.parametrize('when', [(0,), (END_S,), (0, 19, 20)], ids=str)
def test_false_fixes_alone_on_the_field_are_rejected(metres, when):
    """What most of them agree on along the odometry counts, also where the first ones are false."""
    drive = Drive(beacons=False)
    drive.play(fixes={t: drive.fix(t, far(metres)) for t in when})
    assert drive.located and drive.error_m < 0.4
    assert drive.rejected == ['point_priors'] * len(when)
    assert max(drive.errors) < 1.0


@pytest.mark.parametrize(('sample', 'dropped', 'told'), [
    (BODY.odometry(0.0, ODOMETRY, stamp_ns=ns(1e4)), {'implausible': 1},
     'did not go with what followed: dropped'),
    # 10 km away is no antenna of this robot.
    (frame(far(1e4)), {}, '')], ids=['odometry from the future', 'an antenna far away'])
def test_a_first_message_that_is_absurd_costs_itself_only(sample, dropped, told):
    drive = Drive().play([(-1.0, sample)])
    assert drive.located and drive.error_m < 0.1
    assert drive.dropped(sample.kind) == dropped and told in drive.told
