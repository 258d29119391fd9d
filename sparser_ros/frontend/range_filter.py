"""Ranges on their way in: gates, noise, duplicates, and the two directions of one exchange."""

from __future__ import annotations

import heapq
import math
from collections import OrderedDict, deque
from dataclasses import dataclass, field, replace

from ..config import SparserConfig
from .bounds import Bounds
from .counters import KindCounters
from .noise import LARGEST
from .radios import Radio, Radios, flatten_range
from .samples import RangeSample
from .stamps import nanoseconds
from .static_frames import StaticFrames

BLOCKED = 2
MAX_PAIRS = 5000
"""Pairs of radios whose newest ranges are remembered (a swarm of 100 robots has 4950)."""
RECENT = 8
"""Ranges of a pair among which duplicates and other directions are looked for."""


@dataclass
class PendingRange:
    """A range that passed the gates and waits for its time."""

    stamp_ns: int
    source: str
    target: str
    antenna: str
    """Antenna frame of the source, '' = configured."""
    ends: tuple[Radio, Radio]
    distance_m: float
    variance: float
    merged: bool = False
    """True once the other direction of the exchange was added, or for that other direction."""
    gone: bool = False


@dataclass
class PairHistory:
    """What one pair of radios has waiting, and what it sent last."""

    waiting: list[PendingRange] = field(default_factory=list)
    recent: deque[PendingRange] = field(default_factory=lambda: deque(maxlen=RECENT))
    last_kept_ns: int | None = None


class RangeFilter:
    """Checks, corrects, and releases ranges in the order of their stamps.

    A range is released once data time has passed its stamp by the reorder and merge windows, so
    the outcome does not depend on the order in which topics deliver.
    """

    def __init__(self, config: SparserConfig, radios: Radios, counters: KindCounters,
                 bounds: Bounds, frames: StaticFrames) -> None:
        self._config = config
        self._options = config.ranges
        self._frames = frames
        self._antennas: dict[tuple[str, str], tuple[int, Radio | None]] = {}
        """Radios by name and antenna frame, at a revision of the frames."""
        self._learned: dict[str, Radio] = {}
        """Radios as their own messages place them, for ranges that others measure to them."""
        self._bounds = bounds
        self._planar = config.dimension == 2
        self._radios = radios
        self._counters = counters
        self._merge_ns = nanoseconds(config.ranges.merge_window_s)
        self._interval_ns = nanoseconds(config.ranges.min_interval_s)
        self._wait_ns = nanoseconds(config.stamps.reorder_window_s) + self._merge_ns
        self._heap: list[tuple[int, str, str, int, PendingRange]] = []
        self._serial = 0
        self._pairs: OrderedDict[tuple[str, str], PairHistory] = OrderedDict()

    @property
    def delay_ns(self) -> int:
        """Ranges are released once data time is ahead of them by this."""
        return self._wait_ns

    def add(self, sample: RangeSample, stamp_ns: int) -> bool:
        """Take a range in, or count why not."""
        pending = self._checked(sample, stamp_ns)
        if isinstance(pending, str):
            return self._counters.drop(pending)
        if self._counters.waiting >= self._options.max_waiting:
            return self._counters.drop('too_many_waiting')
        history = self._history(pair_of(pending))
        for known in (*history.waiting[-RECENT:], *history.recent):
            if known.stamp_ns == stamp_ns and known.source == pending.source \
                    and known.antenna == pending.antenna:
                return self._counters.drop('duplicate')
        for known in history.recent:
            if not known.merged and self._opposite(known, pending):
                # Its other direction left already: nothing to average with any more.
                known.merged = True
                self._counters.merged += 1
                return True
        history.waiting.append(pending)
        self._serial += 1
        heapq.heappush(
            self._heap, (stamp_ns, pending.source, pending.target, self._serial, pending))
        self._counters.waiting += 1
        return True

    def _history(self, pair: tuple[str, str]) -> PairHistory:
        """What is known of a pair; the one silent for longest is forgotten when there are many."""
        history = self._pairs.setdefault(pair, PairHistory())
        self._pairs.move_to_end(pair)
        if len(self._pairs) > MAX_PAIRS:
            oldest = next(iter(self._pairs))
            if not self._pairs[oldest].waiting:
                del self._pairs[oldest]
        return history

    def _checked(self, sample: RangeSample, stamp_ns: int) -> PendingRange | str:
        """The range with its noise and antennas, or the reason why it is refused."""
        ends = self._ends(sample)
        if isinstance(ends, str):
            return ends
        source, target = ends
        o = self._options
        distance = o.scale * sample.range_m - o.bias_m - source.bias_m - target.bias_m
        if distance < o.min_m or distance <= 0:
            return 'too_short'
        if distance > o.max_m:
            return 'too_long'
        if sample.rx_rssi < o.min_rssi_dbm:
            return 'weak_signal'
        variance = self._variance(sample, distance, ends)
        if self._blocked(sample):
            if o.nlos == 'drop':
                return 'blocked'
            if o.nlos == 'inflate':
                variance *= o.nlos_sigma_scale**2
                self._counters.warnings['blocked'] += 1
        source = self._antenna(sample, source)
        if target.robot and not any(target.lever):
            target = self._learned.get(sample.target, target)
        rise = target.height_m - source.height_m
        if self._planar and math.isfinite(rise) and rise != 0.0:
            flat = flatten_range(distance, variance, rise)
            if flat is None:
                return 'shorter_than_height_difference'
            distance, variance = flat
        return PendingRange(stamp_ns, sample.source, sample.target, sample.frame_id,
                            (source, target), distance, self._bounds.variance('ranges', variance))

    def _ends(self, sample: RangeSample) -> tuple[Radio, Radio] | str:
        """Both radios of a range, or the reason why it is no range between two known ones."""
        if not math.isfinite(sample.range_m):
            return 'not_finite'
        if sample.range_m <= 0:
            return 'not_positive'
        if sample.source == sample.target:
            return 'self_range'
        source, target = self._radios.find(sample.source), self._radios.find(sample.target)
        if source is None or target is None or not sample.source or not sample.target:
            return 'unknown_radio'
        return self._useless(source, target) or (source, target)

    def _useless(self, source: Radio, target: Radio) -> str:
        """Why a range between two radios says nothing, or ''."""
        if source.robot == target.robot and source.beacon == target.beacon:
            return 'self_range'
        if source.beacon and target.beacon and self._radios.beacon(source.beacon).fixed \
                and self._radios.beacon(target.beacon).fixed:
            return 'between_known_beacons'
        return ''

    def _blocked(self, sample: RangeSample) -> bool:
        """True for a range without line of sight, as marked or by its signal."""
        gap = self._options.nlos_rssi_gap_db
        return sample.los == BLOCKED or (
            sample.los == 0 and gap > 0 and sample.rx_rssi - sample.first_path_rssi > gap)

    def _antenna(self, sample: RangeSample, source: Radio) -> Radio:
        """The radio of the antenna frame that a message names, else the source itself."""
        frame = sample.frame_id
        if not frame or frame == sample.source or not source.robot:
            return source
        antenna = self._radios.find(frame) if frame in self._radios else None
        if antenna is not None and antenna.robot == source.robot:
            return antenna
        placed = self._placed(sample.source, source, frame)
        if placed is None:
            self._counters.warnings['unknown_antenna_frame'] += 1
            return source
        self._learned[sample.source] = placed
        return placed

    def _placed(self, name: str, radio: Radio, frame: str) -> Radio | None:
        """The radio with its antenna where a frame sits; None where that is not known."""
        revision, known = self._antennas.get((name, frame), (-1, None))
        if revision != self._frames.revision:
            pose = self._frames.on_robot(self._config, radio.robot, frame)
            known = None if pose is None else replace(
                radio, lever=pose[: len(radio.lever)], height_m=pose[2])
            if len(self._antennas) > MAX_PAIRS:
                self._antennas.clear()
            self._antennas[name, frame] = (self._frames.revision, known)
        return known

    def _variance(
        self, sample: RangeSample, distance: float, ends: tuple[Radio, Radio]
    ) -> float:
        o = self._options
        if all(end.range_sigma_m > 0 for end in ends):
            return self._bounds.variance('ranges', (
                ends[0].range_sigma_m**2 + ends[1].range_sigma_m**2
                + (o.sigma_per_m * distance) ** 2))
        given = sample.variance
        if o.use_message_variance and 0 < given <= LARGEST:
            return self._bounds.variance('ranges', given * o.scale**2)
        return self._bounds.variance('ranges', o.sigma_m**2 + (o.sigma_per_m * distance) ** 2)

    def _opposite(self, one: PendingRange, other: PendingRange) -> bool:
        return (one.source == other.target and one.target == other.source
                and abs(one.stamp_ns - other.stamp_ns) <= self._merge_ns)

    def release(self, newest_ns: int, flush: bool) -> list[PendingRange]:
        """Ranges whose time has come, oldest first; they still count as waiting."""
        ready: list[PendingRange] = []
        while self._heap and (flush or self._heap[0][0] + self._wait_ns <= newest_ns):
            pending = heapq.heappop(self._heap)[-1]
            if pending.gone:
                continue
            history = self._pairs[pair_of(pending)]
            history.waiting.remove(pending)
            partner = min(
                (p for p in history.waiting if self._opposite(pending, p)),
                key=lambda p: p.stamp_ns, default=None)
            if partner is not None:
                history.waiting.remove(partner)
                partner.gone = pending.merged = True
                # One exchange seen twice: the errors are common, so the noise stays the same.
                pending.distance_m = (pending.distance_m + partner.distance_m) / 2
                pending.variance = min(pending.variance, partner.variance)
                self._counters.merged += 1
                self._counters.waiting -= 1
            history.recent.append(pending)
            last = history.last_kept_ns
            if self._interval_ns and last is not None \
                    and abs(pending.stamp_ns - last) < self._interval_ns:
                self._counters.waiting -= 1
                self._counters.drop('decimated')
                continue
            history.last_kept_ns = pending.stamp_ns
            ready.append(pending)
        return ready


def pair_of(pending: PendingRange) -> tuple[str, str]:
    """The pair of radios, whichever direction."""
    return (pending.source, pending.target) if pending.source < pending.target \
        else (pending.target, pending.source)
