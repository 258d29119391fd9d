"""The way of all measurements to rows of the graph: checks, order by stamp, limits on rates, wait
until odometry covers their instants, numbers of poses and landmarks."""

from __future__ import annotations

import heapq
import logging
import math
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..array_types import Array, Mask
from ..config import SparserConfig
from ..graph import (
    Heights,
    Increment,
    Landmarks,
    PointPriors,
    Poses,
    RelativePoses,
    Table,
    Verticals,
)
from ..graph.thinning import surplus
from .clocks import MAX_WAITING, DataClock, nanoseconds
from .counters import Counters, EventLog
from .frames import StaticFrames
from .motion import Pose, Vector, geometry, rotation_rows
from .radios import Radio, Radios
from .track import Attachment, Track

BEACON_HEIGHT_SIGMA_M = 0.1
"""Of the height of a beacon where its `sigma_m` says nothing: tape measures."""
MAX_KNOWN = 100_000
"""Sources whose newest stamp is remembered, and measurements, to know a second copy."""
MEASUREMENTS = 25
"""More of them than so many for each keyframe count as a keyframe more."""
LEFT = 0.75
"""Share of `keyframes.max_count` that a thinning leaves: the whole graph is handed over anew each
time, so it should be rare, and a finer step than every second keyframe everywhere keeps the density
smooth."""
_log = logging.getLogger(__name__)
Instant = tuple[int, int]
"""Number of a robot, and a stamp in data time."""


class Shared:
    """The parts of a front-end that all kinds of input use."""

    def __init__(self, config: SparserConfig, frames: StaticFrames) -> None:
        self.config, self.frames = config, frames
        self.space = geometry(config.dimension)
        self.counters, self.events = Counters(), EventLog()
        self.radios = Radios(config)
        self.clock = DataClock(config, self.events, self.radios)
        self.numbers = {name: number for number, name in enumerate(config.robots)}
        self.tracks = [Track(number, config, self.space) for number in self.numbers.values()]
        self.unlevelled: set[str] = set()
        """Robots whose odometry, or IMU, says something else of the vertical than is true."""


@dataclass
class Pending:
    """A measurement that passed the checks of its kind."""

    stamp_ns: int
    instants: tuple[Instant | None, ...]
    """Of its ends; None for ends that are no robot."""
    values: tuple[Any, ...]
    """Arguments of `Intake.row`."""
    places: dict[int, Attachment] = field(init=False, default_factory=dict)
    """Keyframes of its ends found so far."""

    @property
    def newest_ns(self) -> int:
        """The newer one of its instants."""
        return max((instant[1] for instant in self.instants if instant), default=self.stamp_ns)

    def attach(self, tracks: list[Track], last: bool) -> str | None:
        """'' = all ends have keyframes, None = wait, else why one has none. `last`: do not wait."""
        complete = True
        for end, instant in enumerate(self.instants):
            if instant is None or end in self.places:
                continue
            place = tracks[instant[0]].locate(instant[1], last)
            if isinstance(place, str):
                return place
            if place is None:
                complete = False
            else:
                self.places[end] = place
        return '' if complete else None


class Intake(ABC):
    """Measurements of one kind, from their samples until both ends have keyframes."""

    kind = ''
    """One of `counters.KINDS`."""

    def __init__(self, shared: Shared) -> None:
        self._shared, self._config, self._space = shared, shared.config, shared.space
        self._clock, self._events = shared.clock, shared.events
        self._timeout_ns = nanoseconds(shared.config.stamps.timeout_s)
        self.counters = shared.counters[self.kind]
        self._waiting: list[Pending] = []
        self._known: OrderedDict[Hashable, Any] = OrderedDict()
        """Newest stamp of each source, and measurements."""

    @abstractmethod
    def check(self, sample: Any, stamp_ns: int) -> Any:
        """The measurement (`Pending`) of a sample, or why it is refused."""

    @abstractmethod
    def row(self, assembly: Assembly, pending: Any, *values: Any) -> str:
        """Add a measurement whose ends have keyframes; why it cannot be added, '' = it was."""

    def add(self, sample: Any, stamp_ns: int) -> bool:
        """Take in a sample with its stamp in data time, or count why not."""
        pending = self.check(sample, stamp_ns)
        if isinstance(pending, str):
            return self.counters.drop(pending)
        if self.counters.waiting > MAX_WAITING:
            return self.counters.drop('too_many_waiting')
        self._hold(pending)
        return True

    def _hold(self, pending: Any) -> None:
        self._waiting.append(pending)

    def _of_robot(self, robot: str, stamp_ns: int, *values: Any) -> Pending:
        return Pending(stamp_ns, ((self._shared.numbers[robot], stamp_ns),), values)

    def _one_too_many(self, source: Hashable, stamp_ns: int, interval_s: float) -> str:
        """Why a sample of a source is one too many, '' = it is not, and is remembered."""
        last = self._known.get(source)
        if stamp_ns == last:
            return 'duplicate'
        if last is not None and abs(stamp_ns - last) < nanoseconds(interval_s):
            return 'decimated'
        remember(self._known, source, stamp_ns)
        self._clock.follow(stamp_ns)
        return ''

    def _second_copy(self, measurement: Hashable) -> bool:
        """True for a measurement that came before; another one is remembered."""
        known = measurement in self._known
        if not known:
            remember(self._known, measurement)
        return known

    def _released(self, flush: bool) -> Iterable[Pending]:
        """Measurements that were held back elsewhere and now wait for odometry alone."""
        return ()

    def detach(self) -> None:
        """Look for all keyframes anew: their numbers have changed."""
        for pending in self._waiting:
            pending.places.clear()

    def attach(self, assembly: Assembly, flush: bool) -> None:
        """Add the measurements that have keyframes now; those that never will are dropped.

        With `flush`, or where data time has passed them by the timeout, nothing waits any longer.
        An exception drops one of them.
        """
        waiting, self._waiting = [*self._waiting, *self._released(flush)], []
        for pending in waiting:
            last = flush or self._clock.newest_ns - pending.newest_ns > self._timeout_ns
            try:
                reason = pending.attach(self._shared.tracks, last)
                if reason is None:
                    self._waiting.append(pending)
                    continue
                reason = reason or self.row(assembly, pending, *pending.values)
            except Exception:
                _log.exception('a measurement could not be attached: %r', pending)
                reason = 'internal_error'
            if reason:
                self.counters.drop(reason)
                continue
            self.counters.accept()
            assembly.newest_ns = max(assembly.newest_ns, pending.newest_ns)


class StampOrder:
    """Releases what has a `stamp_ns` by that, once data time has passed it by a delay: the outcome
    does not depend on the order in which topics deliver."""

    def __init__(self, delay_ns: int) -> None:
        self.delay_ns = delay_ns
        self._heap: list[tuple[int, Any, int, Any]] = []
        self._serial = 0

    def holds(self, stamp_ns: int) -> bool:
        return any(entry[0] == stamp_ns for entry in self._heap)

    def push(self, item: Any, key: Any = None) -> None:
        """Take one in; the key decides between equal stamps."""
        self._serial += 1
        heapq.heappush(self._heap, (item.stamp_ns, key, self._serial, item))

    def released(self, newest_ns: int = 0, flush: bool = False) -> Iterator[Any]:
        """Those whose time has come, oldest first."""
        while self._heap and (flush or self._heap[0][0] + self.delay_ns <= newest_ns):
            yield heapq.heappop(self._heap)[-1]


def remember(
    table: OrderedDict, key: Hashable, value: object = None, most: int = MAX_KNOWN
) -> None:
    """Put an entry last; the oldest goes where there are too many."""
    table[key] = value
    table.move_to_end(key)
    if len(table) > most:
        table.popitem(last=False)


class SharedErrors:
    """Information of readings whose error changes slowly, so that neighbours share it: of readings
    within the correlation time T together as much is believed as of one (a share dt / T of the
    information of one for each, dt the time since the one before)."""

    def __init__(self) -> None:
        self._last_ns: dict[Hashable, int] = {}

    def share(self, source: Hashable, stamp_ns: int, correlation_s: float) -> float:
        """Of the information of an independent reading, above 0 and at most 1."""
        last = self._last_ns.get(source)
        self._last_ns[source] = stamp_ns
        if last is None or correlation_s <= 0:
            return 1.0
        return min(1.0, max(abs(stamp_ns - last), 1) / (correlation_s * 1e9))


class Assembly:
    """The variables handed out so far, and the rows of the increment being made."""

    def __init__(self, shared: Shared) -> None:
        self._config, self._space = shared.config, shared.space
        self._tracks, self._radios = shared.tracks, shared.radios
        self._unlevelled, self._errors = shared.unlevelled, SharedErrors()
        self._landmarks: dict[str, int] = {}
        self._sequence = self._n_poses = self._n_measurements = self.newest_ns = 0
        """Increments, poses and measurements that are not thinned, and the newest stamp of data so
        far."""
        self._most = self._next_thinning = self._config.keyframes.max_count

    @property
    def _load(self) -> float:
        """Keyframes, or those that would have so many measurements in the usual way: a robot that
        stands still has few keyframes, and measures on."""
        return max(self._n_poses, self._n_measurements / MEASUREMENTS)

    def thin(self) -> Mask | None:
        """Forget old keyframes where there are too many, right after `finish`; a mask (n,) of the
        poses that go. None = all stay."""
        n, load = self._n_poses, self._load
        if not self._most or load <= self._next_thinning:
            return None
        stamp_ns, chain = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
        first = 0
        for track in self._tracks:
            stamp_ns[track.rows] = track.keyframes.stamps
            chain[track.rows] = first + np.array(track.keyframes.segments)
            first += track.segment + 1
        # Newer keyframes are still to be attached to, by raw odometry.
        settled_ns = int(stamp_ns.max()) - nanoseconds(self._config.odometry.history_s)
        keep = ~surplus(stamp_ns, chain, int(LEFT * self._most * n / load), settled_ns)
        # Where few may go (young ones, ends of odometry), the next try waits for new ones.
        self._n_poses = int(np.sum(keep))
        self._n_measurements = self._n_measurements * self._n_poses // n
        self._next_thinning = max(self._most, int(self._load + (1 - LEFT) * self._most))
        if self._n_poses == n:
            return None
        place = np.cumsum(keep) - 1
        for track in self._tracks:
            rows = np.array(track.rows, dtype=np.int64)
            track.thin(keep[rows], place[rows[keep[rows]]])
        return ~keep

    def begin(self) -> None:
        """Start an increment: number the new keyframes, so that measurements can name them, and add
        what odometry states of each one."""
        self._rows: dict[type[Table], list[tuple[Any, ...]]] = {}
        self._new_landmarks: list[str] = []
        fresh = sorted(
            (track.keyframes.stamps[number], robot, number)
            for robot, track in enumerate(self._tracks)
            for number in range(len(track.rows), len(track.keyframes)))
        poses = [self._tracks[robot].keyframes[number] for _, robot, number in fresh]
        for (stamp_ns, robot, _), pose in zip(fresh, poses, strict=True):
            self._tracks[robot].rows.append(self._n_poses)
            self._level(robot, pose, stamp_ns)
            self._n_poses += 1
            self.newest_ns = max(self.newest_ns, stamp_ns)
        for track in self._tracks:
            for number, motion, move, turn in track.edges:
                self.add(RelativePoses, track.rows[number - 1], track.rows[number], motion,
                         self.kappa(turn), 1 / move, True, track.keyframes.stamps[number])
            track.edges.clear()
        table = np.array(fresh, dtype=np.int64).reshape(-1, 3)
        self._poses = Poses(table[:, 1], table[:, 2], table[:, 0], *self._space.arrays(poses))

    def _level(self, robot: int, pose: Pose, stamp_ns: int) -> None:
        """The vertical and the height of a keyframe, where its odometry says them and nothing else
        denies that."""
        name, o = self._config.robots[robot], self._config.odometry
        if not self._config.claims_gravity(name) or name in self._unlevelled:
            return
        tilt = o.tilt_sigma_rad**2 / self._errors.share(
            ('tilt', robot), stamp_ns, o.tilt_correlation_s)
        self.add(Verticals, self._n_poses, tuple(rotation_rows(pose[3:])[2]), 1 / tilt, stamp_ns)
        if o.height == 'trusted':
            height = o.height_sigma_m**2 / self._errors.share(
                ('height', robot), stamp_ns, o.height_correlation_s)
            self.add(Heights, self._n_poses, self._space.zero, pose[2], 1 / height, stamp_ns)

    def add(self, kind: type[Table], *row: Any) -> None:
        """A row of a table in the order of its columns; a pose stands for both of its parts."""
        self._rows.setdefault(kind, []).append(row)

    def row(self, place: Attachment) -> int:
        """Number of the pose of a keyframe."""
        return self._tracks[place.robot].rows[place.number]

    def landmark(self, name: str) -> int:
        """Endpoint of a landmark, which may be new."""
        number = self._landmarks.get(name)
        if number is None:
            number = self._landmarks[name] = len(self._landmarks)
            self._new_landmarks.append(name)
        return ~number

    def end(self, radio: Radio, place: Attachment | None) -> tuple[int, Vector]:
        """Endpoint and lever arm of a radio; `place`: of the robot that carries it."""
        if place is not None:
            return self.row(place), self._space.act(place.offset, radio.lever)
        return self.landmark(radio.beacon), self._space.zero

    def kappa(self, variance: float) -> float:
        """As `graph.precision.kappa_from_covariance`, of a variance per axis."""
        return (1.0 if self._space.dimension == 2 else 0.5) / variance

    def finish(self) -> Increment | None:
        """The increment; None = it would be empty."""
        landmarks = self._take_landmarks()
        if not len(self._poses) and not len(landmarks) and not self._rows:
            return None
        increment = Increment(
            self._sequence, tuple(self._config.robots), self._poses, landmarks,
            *(self._table(kind, rows) for kind, rows in self._rows.items()),
            newest_stamp_ns=self.newest_ns, unlevelled=tuple(sorted(self._unlevelled)))
        self._n_measurements += increment.n_measurements
        self._sequence += 1
        self._rows = {}
        return increment

    def _table(self, kind: type[Table], rows: list[tuple[Any, ...]]) -> Table:
        given = iter(zip(*rows, strict=True))
        columns: dict[str, Array] = {}
        for name, column in kind.columns().items():
            if name == 'rotation':
                columns[name], columns['translation'] = self._space.arrays(next(given))
            elif name not in columns:
                columns[name] = np.array(next(given), dtype=column.dtype)
        return kind(**columns)

    def _take_landmarks(self) -> Landmarks:
        """Beacons met since the last increment; a known one with a sigma gets a prior, and so does
        in space the height of the others."""
        config = self._config
        # Only where robots measure heights there is a height 0.
        measured = config.heights.inputs or config.odometry.height == 'trusted'
        beacons = [self._radios.beacon(name) for name in self._new_landmarks]
        position = np.full((len(beacons), self._space.dimension), np.nan)
        for row, beacon in enumerate(beacons):
            end, zero, sigma = self.landmark(beacon.beacon), self._space.zero, beacon.sigma_m
            if beacon.position is not None:
                position[row] = beacon.position
                if not beacon.fixed:
                    self.add(PointPriors, end, zero, beacon.position, 1 / sigma**2, 0)
                    continue
                # Where too few places are known to fix the frame of map, their heights still count.
                height, sigma = beacon.position[-1], BEACON_HEIGHT_SIGMA_M if measured else 0.0
            else:
                height, sigma = beacon.height_m, sigma or BEACON_HEIGHT_SIGMA_M
            if not math.isfinite(height):
                height, sigma = 0.0, config.heights.beacon_sigma_m if measured else 0.0
            if sigma and config.dimension == 3:
                self.add(Heights, end, zero, height, 1 / sigma**2, 0)
        return Landmarks(tuple(self._new_landmarks), position,
                         np.array([b.fixed for b in beacons], dtype=bool))
