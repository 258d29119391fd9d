"""Sighting messages: checked, sorted, thinned where they flood, and waiting for odometry."""

from __future__ import annotations

import heapq
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator

from ..config import SparserConfig
from ..graph.finding import Finding
from .admission import Misspelt, RateLimit, Strangers
from .counters import KindCounters
from .events import EventLog
from .odometry import Attachment, OdometryTrack
from .radios import Radios
from .samples import SightingSample
from .sighting_gate import UNKNOWN_FRAME, PendingSighting, SightingGate
from .stamps import DataClock, nanoseconds
from .static_frames import StaticFrames
from .waiting import Waiting, WaitingList

MAX_WAITING = 10000
"""Sightings that wait for odometry; further ones are refused."""
MAX_KNOWN = 10000
"""Sightings that are remembered, to know a second copy."""
MAX_SOURCES = 10000
"""Robots times frames times landmarks whose newest sighting is remembered."""


class SightingIntake:
    """All sightings of landmarks on their way to keyframes.

    One is released once data time has passed its stamp by the reorder window, so the outcome does
    not depend on the order in which topics deliver.
    """

    def __init__(
        self, config: SparserConfig, gate: SightingGate, radios: Radios,
        tracks: list[OdometryTrack], clock: DataClock, counters: KindCounters, events: EventLog,
        frames: StaticFrames,
    ) -> None:
        options = config.sightings
        self._timeout_ns = nanoseconds(config.stamps.timeout_s)
        self._frames, self._revision = frames, frames.revision
        self._unplaced: deque[tuple[SightingSample, int]] = deque()
        """Sightings in frames that nothing is known of yet, with their stamps."""
        self._names = list(config.robots)
        self._gate = gate
        self._clock = clock
        self._counters = counters
        self._events = events
        self._wait_ns = nanoseconds(config.stamps.reorder_window_s)
        self._interval_ns = nanoseconds(options.min_interval_s)
        self._limit = RateLimit(options.max_total_rate_hz, options.max_total_rate_hz)
        self._misspelt = Misspelt(radios.configured, 'landmark')
        self._strangers: Strangers[PendingSighting] = Strangers(
            options.new_landmark_sightings, config.ranges.max_new_beacons, radios, counters,
            self._misspelt, 'sightings')
        self._known: OrderedDict[tuple[object, ...], None] = OrderedDict()
        self._last_ns: OrderedDict[tuple[int, str, str], int] = OrderedDict()
        self._heap: list[tuple[int, int, str, int, PendingSighting]] = []
        self._serial = 0
        self._waiting: WaitingList[PendingSighting] = WaitingList(
            tracks, self._timeout_ns, counters)

    def add(self, sample: SightingSample, stamp_ns: int) -> bool:
        """Take in a sighting by a known robot with its stamp in data time."""
        counters = self._counters
        pending = self._gate.check(sample, stamp_ns)
        if pending == UNKNOWN_FRAME and counters.waiting < MAX_WAITING:
            # /tf_static may come behind the first pictures.
            self._unplaced.append((sample, stamp_ns))
            counters.waiting += 1
            return True
        if isinstance(pending, str):
            return counters.drop(pending)
        key = (pending.robot, pending.landmark, stamp_ns, pending.position)
        if key in self._known:
            return counters.drop('duplicate')
        if counters.waiting >= MAX_WAITING:
            return counters.drop('too_many_waiting')
        _remember(self._known, key, None, MAX_KNOWN)
        self._serial += 1
        heapq.heappush(self._heap, (
            stamp_ns, pending.robot, pending.landmark, self._serial, pending))
        counters.waiting += 1
        self._clock.follow(stamp_ns)
        return True

    def detach(self) -> None:
        """Look for all keyframes anew: their numbers have changed."""
        self._waiting.detach()

    def resolve(self, flush: bool,
                accept: Callable[[PendingSighting, list[Attachment | None]], str]) -> None:
        """Hand over the sightings whose time has come and whose odometry is there."""
        newest = self._clock.newest_ns
        self._place(newest, flush)
        for admitted in self._strangers.passed(self._in_rate(newest, flush), flush):
            self._wait(admitted)
        self._waiting.resolve(newest, flush, accept)

    def _in_rate(self, newest_ns: int, flush: bool) -> Iterator[PendingSighting]:
        """The sightings whose time has come, without those that are too many."""
        while self._heap and (flush or self._heap[0][0] + self._wait_ns <= newest_ns):
            pending = heapq.heappop(self._heap)[-1]
            reason = self._too_often(pending)
            if not reason:
                yield pending
                continue
            self._counters.waiting -= 1
            self._counters.drop(reason)

    def _place(self, newest_ns: int, flush: bool) -> None:
        """Look again at sightings in unknown frames; those that waited too long are dropped."""
        if self._revision != self._frames.revision:
            self._revision = self._frames.revision
            waiting, self._unplaced = self._unplaced, deque()
            for sample, stamp_ns in waiting:
                self._counters.waiting -= 1
                self.add(sample, stamp_ns)
        while self._unplaced and (
                flush or newest_ns - self._unplaced[0][1] > self._timeout_ns):
            sample, _ = self._unplaced.popleft()
            self._counters.waiting -= 1
            self._counters.drop(UNKNOWN_FRAME)
            self._events.add(newest_ns, Finding(
                'sighting_frame', sample.robot,
                f'sightings of {sample.robot} are in the frame {sample.frame_id!r}; neither '
                'sightings.sensor_poses nor /tf_static says where that is: dropped'))

    def _too_often(self, pending: PendingSighting) -> str:
        """Why a sighting is one too many, or ''."""
        key = (pending.robot, pending.frame, pending.landmark)
        last = self._last_ns.get(key)
        if last is not None and pending.stamp_ns - last < self._interval_ns:
            return 'decimated'
        name = self._names[pending.robot]
        if self._limit.exceeded(pending.stamp_ns, (name, pending.landmark)):
            self._events.add(pending.stamp_ns, Finding(
                'sighting_flood', name, 'sightings come faster than '
                'sightings.max_total_rate_hz: dropped'))
            return 'rate_limit'
        _remember(self._last_ns, key, pending.stamp_ns, MAX_SOURCES)
        return ''

    def _wait(self, pending: PendingSighting) -> None:
        self._waiting.add(Waiting(pending, ((pending.robot, pending.stamp_ns),)))

    def findings(self) -> tuple[Finding, ...]:
        """Floods of unknown names."""
        return self._strangers.findings()

    def hints(self) -> tuple[str, ...]:
        """Names of landmarks that look mistyped, in words."""
        return self._misspelt.texts


def _remember(table: OrderedDict, key: object, value: object, most: int) -> None:
    """Put an entry last; the oldest goes where there are too many."""
    table[key] = value
    table.move_to_end(key)
    if len(table) > most:
        table.popitem(last=False)
