"""Account of every message: counts by kind and reason, and faults of sources as findings.

Nothing is lost silently.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from ..graph.finding import Finding

KINDS = ('odometry', 'ranges', 'sightings', 'closures', 'fixes', 'heights', 'attitudes', 'frames')
SHOWN_NS = 30_000_000_000
"""An event stays a finding for this much data time: an operator who looks at the status every
half minute sees each one."""
MAX_EVENTS, MAX_SHOWN = 1000, 50
"""Events that are kept for reports, and that are findings at once: a source that faults at every
message fills no status."""
ABSURD = {
    'unreadable': 'they are no such messages',
    'not_finite': 'they hold numbers that are not finite',
    'out_of_bounds': 'they lie beyond 1e7 m',
    'zero_quaternion': 'their quaternions are zero, which is no rotation',
    'quaternion_not_unit': 'their quaternions have norms far from 1, which is no rotation',
    'among_absurd': 'most of those just before them are no poses',
    'far_from_datum': 'they lie farther than fixes.max_distance_m from fixes.datum (latitude 0, '
    'longitude 0 is what many receivers send without a position)',
    'wrong_frame': 'they are not in the frame frames.map',
    'unconfirmed': 'they move a frame on its robot far from where an earlier message had it; sent '
    'once more, it counts',
    'stamp_out_of_bounds': 'their stamps are no times',
}
"""Reasons for which no right source has a message refused, in words."""
REASONS = ABSURD | {
    'after_odometry': 'odometry ended before their stamps',
    'before_odometry': 'odometry began after their stamps',
    'beyond_sensor': 'they are above the max_range that they state',
    'between_known_beacons': 'both ends are beacons at known positions',
    'blocked': 'they have no line of sight (ranges.nlos)',
    'decimated': 'they come faster than their min_interval_s',
    'duplicate': 'they came before',
    'frozen': 'they repeat to the last digit while their robot moves',
    'implausible': 'no robot moves so (odometry.max_speed_m_per_s)',
    'in_the_future': 'their stamps are far ahead of all other data',
    'internal_error': 'this package failed at them: see the log',
    'low_confidence': 'they are below closures.min_confidence',
    'no_datum': 'fixes.datum is not set',
    'no_frame': 'they name no frame',
    'no_frame_yet': 'their radio has not measured yet',
    'no_landmark': 'they name no landmark',
    'no_name': 'targets has no name at their place in the array',
    'no_odometry': 'no odometry of their robot has come',
    'no_orientation': 'they say that they hold no orientation',
    'no_satellite_fix': 'the receiver says that it has no fix',
    'no_stamp': 'they have no stamp',
    'not_positive': 'they are 0 or less',
    'not_successful': 'they say that the closure failed',
    'odometry_gap': 'their stamps lie in a gap of the odometry',
    'odometry_says': 'odometry knows the vertical already; where not, set odometry.vertical: free',
    'off_in_time': 'they do not fit their neighbours (ranges.temporal_window_s)',
    'out_of_order': 'they came too late to be sorted in',
    'out_of_range': 'they lie beyond min_m or max_m of heights.inputs',
    'own_parent': 'a frame is its own parent',
    'rate_limit': 'they come faster than max_rate_hz or max_total_rate_hz',
    'repeated_frame': 'the driver repeats its last frame',
    'robot_seen': 'what they see is a robot by `radios`',
    'same_keyframe': 'both ends are at one keyframe (keyframes.distance_m)',
    'self_range': 'both ends are on one robot or beacon by `radios`',
    'shorter_than_height_difference': 'antennas are farther apart in height (lever_arm, height_m)',
    'time_backwards': 'their stamps went back; if the clock was set back: ~/reset',
    'too_far': 'they are above sightings.max_m',
    'too_long': 'they are above ranges.max_m or closures.max_translation_m',
    'too_many_frames': '/tf_static has more frames than are kept',
    'too_many_waiting': 'too many wait for odometry',
    'too_near': 'they are below sightings.min_m',
    'too_short': 'they are below ranges.min_m, bias_m taken off',
    'turned': 'the IMU is mounted otherwise than attitudes.mounts says',
    'unconfirmed_landmark': 'too few name their landmark (sightings.new_landmark_sightings)',
    'unconfirmed_radio': 'too few name their radio (ranges.new_beacon_ranges)',
    'unknown_frame': 'neither sightings.sensor_poses nor /tf_static has their frame',
    'unknown_keyframe': 'nothing told the stamps of their keyframes (keyframe_topic)',
    'unknown_landmark': '`radios` lacks their landmark (sightings.unknown_landmarks)',
    'unknown_radio': '`radios` lacks their radio (ranges.unknown_radios)',
    'unknown_robot': 'the robot that they name is not in `robots`',
}
"""All reasons of refusal, in words."""
ALL_REFUSED = 20
"""Messages of a kind; where so many have come and all were refused, that is no accident."""


@dataclass
class KindCounters:
    """One kind of input: received = accepted + merged + dropped + waiting, always.

    A message waits from `receive` until one of `accept`, `merge` and `drop`.
    """

    received: int = 0
    accepted: int = 0
    merged: int = 0
    waiting: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    """By reason."""
    warnings: Counter[str] = field(default_factory=Counter)
    """Accepted all the same, with something replaced or doubtful; by reason."""
    refused: str = ''
    """Reason of the newest refusal."""

    def receive(self) -> None:
        self.received += 1
        self.waiting += 1

    def accept(self) -> None:
        self.waiting -= 1
        self.accepted += 1

    def merge(self) -> None:
        """Count one that became part of another."""
        self.waiting -= 1
        self.merged += 1

    def drop(self, reason: str) -> bool:
        """Count a refusal; returns False, so that callers can return it."""
        self.waiting -= 1
        self.dropped[reason] += 1
        self.refused = reason
        return False

    @property
    def refuses_all(self) -> bool:
        """True where many have come, and none was taken."""
        return self.received >= ALL_REFUSED and self.received == self.dropped.total()

    @property
    def balanced(self) -> bool:
        return self.received == self.accepted + self.merged + self.waiting + self.dropped.total()

    def as_dict(self) -> dict[str, Any]:
        return {
            'received': self.received, 'accepted': self.accepted, 'merged': self.merged,
            'waiting': self.waiting, 'dropped': dict(sorted(self.dropped.items())),
            'warnings': dict(sorted(self.warnings.items())),
        }


class Counters(dict[str, KindCounters]):
    """Counts of all kinds of input, by `KINDS`, and of time jumps."""

    def __init__(self) -> None:
        super().__init__((kind, KindCounters()) for kind in KINDS)
        self.time_jumps = 0

    def findings(self) -> Iterator[Finding]:
        """Kinds of input of which all is refused, for a reason that is not told of each topic."""
        for kind, counted in self.items():
            if counted.refuses_all:
                (reason, count), = counted.dropped.most_common(1)
                if reason not in ABSURD:
                    yield Finding(
                        'refused_all', kind, f'all {counted.received} {kind} are refused, {count} '
                        f'as {reason}: {REASONS[reason]}', counted.received, 'messages')

    @property
    def received(self) -> int:
        """Messages of all kinds."""
        return sum(kind.received for kind in self.values())

    @property
    def dropped(self) -> int:
        """Refusals of all kinds."""
        return sum(kind.dropped.total() for kind in self.values())

    @property
    def internal_errors(self) -> int:
        """Samples at which this package raised an exception."""
        return sum(kind.dropped['internal_error'] + kind.warnings['internal_error']
                   for kind in self.values())

    def as_dict(self) -> dict[str, Any]:
        return {**{name: kind.as_dict() for name, kind in self.items()},
                'time_jumps': self.time_jumps, 'internal_errors': self.internal_errors}


class EventLog:
    """Events in data time; equal ones (kind and subject) show their newest text and their count."""

    def __init__(self) -> None:
        self._events: deque[tuple[int, Finding]] = deque(maxlen=MAX_EVENTS)
        self._refused: dict[tuple[str, str], tuple[int, Finding]] = {}
        """By topic and reason."""

    def refused(self, stamp_ns: int, topic: str, reason: str, detail: str = '') -> None:
        """Note that a message of a topic was refused, which is told where it is `ABSURD`."""
        before = self._refused.get((topic, reason))
        if reason not in ABSURD or (before is None and len(self._refused) >= MAX_EVENTS):
            return
        count = 1 if before is None else int(before[1].value) + 1
        self._refused[topic, reason] = stamp_ns, Finding(
            f'refused_{reason}', topic, f'{count} of the messages on {topic} dropped: '
            f'{detail or ABSURD[reason]}', count, 'messages')

    @property
    def everything(self) -> tuple[tuple[int, Finding], ...]:
        """(data time in ns, finding): refusals, each reason of a topic once, and events."""
        return (*self._refused.values(), *self._events)

    def add(self, stamp_ns: int, finding: Finding) -> None:
        """Note that something happened at a data time."""
        self._events.append((stamp_ns, finding))

    def findings(self, newest_ns: int) -> tuple[Finding, ...]:
        """Findings on the last `SHOWN_NS` of data time."""
        shown: dict[tuple[str, str], tuple[int, Finding]] = {}
        for stamp_ns, finding in self._events:
            if newest_ns - stamp_ns <= SHOWN_NS:
                key = (finding.kind, finding.subject)
                shown[key] = shown.pop(key, (0, finding))[0] + 1, finding
        return (*(finding for stamp_ns, finding in self._refused.values()
                  if newest_ns - stamp_ns <= SHOWN_NS),
                *(finding if count == 1 else replace(
                    finding, text=f'{finding.text} ({count} times)')
                  for count, finding in list(shown.values())[-MAX_SHOWN:]))
