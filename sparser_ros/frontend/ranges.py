"""Range messages: checked and corrected, both directions of an exchange merged, thinned where they
flood, and waiting for odometry."""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from ..array_types import Array
from ..graph.finding import Finding
from .clocks import nanoseconds
from .noise import LARGEST
from .radios import Misspelt, Radio, Strangers, flatten_range
from .samples import RangeSample
from .units import UnitCheck
from .waiting import Intake, Pending, RateLimit, Shared, StampOrder

BLOCKED = 2
"""Of `RangeSample.los`."""
MAX_PAIRS = 5000
"""Pairs of radios whose newest ranges are remembered (a swarm of 100 robots has 4950)."""
RECENT = 8
"""Ranges of a pair among which duplicates and other directions are looked for."""
LEAST_SELF_RANGES, SELF_SHARE = 20, 0.5
"""Number and share of ranges within one robot that are no accident but a wrong configuration."""
ORDER = 2
FEWEST = ORDER + 3
"""Ranges in a window; with fewer the fit goes through them whatever they are."""
MEMORY = 200
"""Residuals of a pair whose median counts: the standard deviation of a median of so many is 9 %."""
ROUNDS = 6
"""Reweightings of the fit."""
LEAST_MAD_M = 0.005
"""One tick of a UWB radio: ranges that repeat exactly have a median of zero."""


@dataclass
class PendingRange(Pending):
    """A range that passed the checks."""

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

    @property
    def pair(self) -> tuple[str, str]:
        """The pair of radios, whichever direction."""
        return (self.source, self.target) if self.source < self.target \
            else (self.target, self.source)


class RangeGate:
    """Checks and corrects single ranges: radios, gates, noise, antennas, heights."""

    def __init__(self, shared: Shared) -> None:
        self._config = shared.config
        self._options = shared.config.ranges
        self._planar = shared.config.dimension == 2
        self._robots = shared.robots
        self._radios = shared.radios
        self._frames = shared.frames
        self._bounds = shared.bounds
        self._counters = shared.counters.ranges
        self._antennas: dict[tuple[str, str], tuple[int, Radio | None]] = {}
        """Radios by name and antenna frame, at a revision of the frames."""
        self._learned: dict[str, Radio] = {}
        """Radios as their own messages place them, for ranges that others measure to them."""

    def check(self, sample: RangeSample, stamp_ns: int) -> PendingRange | str:
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
        ends = source, target
        return PendingRange(
            stamp_ns, tuple((self._robots[end.robot], stamp_ns) if end.robot else None
                            for end in ends),
            sample.source, sample.target, sample.frame_id, ends, distance,
            self._bounds.variance('ranges', variance))

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


@dataclass
class PairHistory:
    """Waiting and last ranges of one pair of radios."""

    waiting: list[PendingRange] = field(default_factory=list)
    recent: deque[PendingRange] = field(default_factory=lambda: deque(maxlen=RECENT))
    last_kept_ns: int | None = None


class Ranges(Intake[PendingRange]):
    """All ranges on their way to keyframes."""

    kind = 'ranges'

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        options = self._options = shared.config.ranges
        self._radios = shared.radios
        self._gate = RangeGate(shared)
        self._units = UnitCheck()
        self._merge_ns = nanoseconds(options.merge_window_s)
        self._interval_ns = nanoseconds(options.min_interval_s)
        self._order: StampOrder[PendingRange] = StampOrder(
            nanoseconds(shared.config.stamps.reorder_window_s) + self._merge_ns)
        self._pairs: OrderedDict[tuple[str, str], PairHistory] = OrderedDict()
        self._temporal = TemporalFilter(
            options.temporal_window_s, options.temporal_mads) \
            if options.temporal_window_s > 0 else None
        self._limit = RateLimit(options.max_rate_hz, options.max_total_rate_hz)
        self._misspelt = Misspelt(self._radios.configured)
        self._strangers: Strangers[PendingRange] = Strangers(
            options.new_beacon_ranges, options.max_new_beacons, self._radios, self.counters,
            self._misspelt, 'ranges')

    def look(self, sample: RangeSample) -> None:
        """Judge the unit of a range, whether or not it is taken."""
        if 0 < sample.range_m < math.inf:
            pair = (sample.source, sample.target)
            self._units.add(sample.range_m, pair, sum(map(self._travelled, pair)))

    def _travelled(self, radio: str) -> float:
        number = self._robots.get(self._radios.robot_of(radio))
        return 0.0 if number is None else self._tracks[number].travelled_m

    def add(self, sample: RangeSample, stamp_ns: int) -> bool:
        """Take in a range with its stamp in data time, or count why not."""
        pending = self._gate.check(sample, stamp_ns)
        if isinstance(pending, str):
            return self.counters.drop(pending)
        if self.counters.waiting >= self._options.max_waiting:
            return self.counters.drop('too_many_waiting')
        history = self._history(pending.pair)
        for known in (*history.waiting[-RECENT:], *history.recent):
            if known.stamp_ns == stamp_ns and known.source == pending.source \
                    and known.antenna == pending.antenna:
                return self.counters.drop('duplicate')
        self._clock.follow(stamp_ns)
        for known in history.recent:
            if not known.merged and self._opposite(known, pending):
                # Its other direction left already: nothing to average with any more.
                known.merged = True
                self.counters.merged += 1
                return True
        history.waiting.append(pending)
        self._order.push(pending, (pending.source, pending.target))
        self.counters.waiting += 1
        return True

    def _history(self, pair: tuple[str, str]) -> PairHistory:
        """History of a pair; the one silent for longest is forgotten when there are many."""
        history = self._pairs.setdefault(pair, PairHistory())
        self._pairs.move_to_end(pair)
        if len(self._pairs) > MAX_PAIRS:
            oldest = next(iter(self._pairs))
            if not self._pairs[oldest].waiting:
                del self._pairs[oldest]
        return history

    def _opposite(self, pending: PendingRange, other: PendingRange) -> bool:
        return (pending.source == other.target and pending.target == other.source
                and abs(pending.stamp_ns - other.stamp_ns) <= self._merge_ns)

    def attached(self, newest_ns: int, flush: bool) -> list[PendingRange]:
        """The ranges whose time has come and that have keyframes; others wait or are dropped."""
        ready = self._released(newest_ns, flush)
        if self._temporal is not None:
            ready, blocked = self._temporal.sort(ready, newest_ns - self._order.delay_ns, flush)
            for _ in blocked:
                self._drop('off_in_time')
        self._waiting += self._strangers.passed(self._in_rate(ready), flush)
        return super().attached(newest_ns, flush)

    def _released(self, newest_ns: int, flush: bool) -> list[PendingRange]:
        """Ranges whose time has come, oldest first, the other direction of each merged into it."""
        ready: list[PendingRange] = []
        for pending in self._order.released(newest_ns, flush):
            if pending.gone:
                continue
            history = self._pairs[pending.pair]
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
                self.counters.merged += 1
                self.counters.waiting -= 1
            history.recent.append(pending)
            last = history.last_kept_ns
            if self._interval_ns and last is not None \
                    and abs(pending.stamp_ns - last) < self._interval_ns:
                self._drop('decimated')
                continue
            history.last_kept_ns = pending.stamp_ns
            ready.append(pending)
        return ready

    def _in_rate(self, ready: list[PendingRange]) -> Iterator[PendingRange]:
        """Without those that are too many."""
        for pending in ready:
            pair = self._limit.exceeded(pending.stamp_ns, pending.pair)
            if not pair:
                yield pending
                continue
            self._drop('rate_limit')
            self._events.add(pending.stamp_ns, Finding(
                'range_flood', pair, f'ranges {pair} come faster than the limits of '
                'ranges.max_rate_hz and ranges.max_total_rate_hz: dropped'))

    def findings(self) -> tuple[Finding, ...]:
        """Wrong units, and floods of unknown names."""
        return (*self._units.findings(), *self._strangers.findings())

    def hints(self) -> tuple[str, ...]:
        """Names of radios that look mistyped, and radios on the wrong robot, in words."""
        refused, received = self.counters.dropped['self_range'], self.counters.received
        if refused < LEAST_SELF_RANGES or refused < SELF_SHARE * received:
            return self._misspelt.texts
        owners = '; '.join(f'{owner}: {", ".join(names)}'
                           for owner, names in self._radios.shared.items())
        why = (f'`radios` of the configuration puts both on one robot or beacon ({owners}). A '
               'beacon needs `beacon: NAME` there in place of `robot: NAME`; `sparser info BAG '
               '--config NEW.yaml` drafts the entries from a recording' if owners else
               'both ends have the same name: see ranges.inputs')
        return (*self._misspelt.texts, f'{refused} of {received} ranges are refused as ranges of a '
                f'radio to itself: {why}')


@dataclass
class _Stream:
    """The ranges of one pair within a window, oldest first."""

    ranges: deque[PendingRange] = field(default_factory=deque)
    undecided: int = 0
    """So many of the newest are still to be judged."""
    residuals: deque[float] = field(default_factory=lambda: deque(maxlen=MEMORY))


class TemporalFilter:
    """Blocked ranges by their neighbours in time (paper, appendix D), streaming.

    A polynomial of second order is fitted to the ranges of a pair within a window of 2 s about each
    of them (Savitzky and Golay 1964; by a fit, since radios are not sampled evenly). A range that
    lies off by more than 5 times the median absolute deviation is dropped. Two things differ from
    the paper. The fit has the least sum of absolute values: one of least squares goes towards a
    blocked range of several metres and lets its neighbours look wrong. The median is that of the
    newest residuals of the pair; the paper takes all of a recording. Ranges wait for half a window.
    """

    def __init__(self, window_s: float, mads: float) -> None:
        self._half_ns = nanoseconds(window_s / 2)
        self._mads = mads
        self._streams: dict[tuple[str, str], _Stream] = {}

    def sort(
        self, ready: list[PendingRange], newest_ns: int, flush: bool
    ) -> tuple[list[PendingRange], list[PendingRange]]:
        """(ranges that pass, ranges that are dropped) whose window has closed, oldest first.

        `newest_ns`: no range older than this comes any more. `flush`: none at all.
        """
        for pending in ready:
            stream = self._streams.setdefault(pending.pair, _Stream())
            stream.ranges.append(pending)
            stream.undecided += 1
        passed: list[PendingRange] = []
        dropped: list[PendingRange] = []
        for stream in self._streams.values():
            while stream.undecided:
                pending = stream.ranges[-stream.undecided]
                if not flush and pending.stamp_ns + self._half_ns > newest_ns:
                    break
                (passed if self._fits(stream, pending) else dropped).append(pending)
                stream.undecided -= 1
                self._forget(stream)
        return (sorted(passed, key=lambda r: r.stamp_ns),
                sorted(dropped, key=lambda r: r.stamp_ns))

    def _forget(self, stream: _Stream) -> None:
        """Drop what no window of an undecided range reaches."""
        judged = len(stream.ranges) - stream.undecided
        if not stream.ranges:
            return
        reach = stream.ranges[min(judged, len(stream.ranges) - 1)].stamp_ns - 2 * self._half_ns
        while stream.ranges and stream.ranges[0].stamp_ns < reach \
                and len(stream.ranges) > stream.undecided:
            stream.ranges.popleft()

    def _fits(self, stream: _Stream, pending: PendingRange) -> bool:
        at_ns = pending.stamp_ns
        near = [r for r in stream.ranges if abs(r.stamp_ns - at_ns) <= self._half_ns]
        if len(near) < FEWEST:
            return True
        seconds = np.array([(r.stamp_ns - at_ns) * 1e-9 for r in near])
        distance = np.array([r.distance_m for r in near])
        powers = np.vander(seconds / (self._half_ns * 1e-9), ORDER + 1)
        # The last column is the constant: the fit at the range itself.
        residual = abs(pending.distance_m - _least_absolute(powers, distance))
        stream.residuals.append(residual)
        mad = max(float(np.median(stream.residuals)), LEAST_MAD_M)
        return residual <= self._mads * mad


def _least_absolute(powers: Array, values: Array) -> float:
    """Last coefficient of the fit with the least sum of absolute residuals, by reweighting."""
    weight = np.ones(len(values))
    ridge = 1e-9 * np.eye(powers.shape[1])
    coefficients = np.zeros(powers.shape[1])
    for _ in range(ROUNDS):
        weighted = (powers * weight[:, None]).T
        coefficients = np.linalg.solve(weighted @ powers + ridge, weighted @ values)
        weight = 1 / np.maximum(np.abs(powers @ coefficients - values), LEAST_MAD_M)
        weight /= np.max(weight)
    return float(coefficients[-1])
