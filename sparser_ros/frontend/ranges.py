"""Range messages: checked and corrected, both directions of an exchange merged, thinned where they
flood, and waiting for odometry; and whether they are in metres at all."""

from __future__ import annotations

import math
import statistics
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from ..array_types import Array
from ..graph import Ranges as RangeTable
from ..graph.finding import Finding
from .assembly import Assembly, Shared, StampOrder, remember
from .beacons import BeaconIntake, PendingBeacon
from .clocks import nanoseconds
from .motion import LARGEST, believed_m2
from .radios import Radio
from .samples import RangeSample, Repeats
from .track import Track

BLOCKED = 2
"""Of `RangeSample.los`."""
MAX_PAIRS = 5000
"""Pairs of radios whose newest ranges are remembered (a swarm of 100 robots has 4950)."""
RECENT = 8
"""Ranges of a pair among which duplicates and other directions are looked for."""
FROZEN, FROZEN_WAY_M = 4, 1.0
"""So many ranges of a pair equal to the one before, while its robots drive so far, are no
measurements, if as many before them differed: drivers go on with the last range of a radio that is
lost."""
LEAST_SELF_RANGES, SELF_SHARE = 20, 0.5
"""Number and share of ranges within one robot that are no accident but a wrong configuration."""


@dataclass
class PendingRange(PendingBeacon):
    source: str
    """The radio that measured."""
    antenna: str
    """Its antenna frame, '' = configured."""
    distance_m: float
    variance: float
    merged: bool = False
    """True once the other direction of the exchange was added, or for that other direction."""
    gone: bool = False


@dataclass
class PairHistory:
    """What is remembered of one pair of radios."""

    waiting: list[PendingRange] = field(default_factory=list)
    recent: deque[PendingRange] = field(default_factory=lambda: deque(maxlen=RECENT))
    """The last ones that left."""
    window: deque[PendingRange] = field(default_factory=deque)
    """Those from the first one on that a window of the temporal filter may reach."""
    residuals: deque[float] = field(default_factory=lambda: deque(maxlen=MEMORY))
    """Of the temporal filter, metres."""
    repeats: dict[str, tuple[tuple[int, ...], Repeats]] = field(default_factory=dict)
    """By the radio that measured, with the segments of odometry in which it did."""


class Ranges(BeaconIntake):
    """All ranges on their way to keyframes."""

    kind = 'ranges'

    def __init__(self, shared: Shared) -> None:
        options = self._options = shared.config.ranges
        self._merge_ns = nanoseconds(options.merge_window_s)
        super().__init__(
            shared, self._merge_ns, (options.max_rate_hz, options.max_total_rate_hz),
            options.min_interval_s, options.new_beacon_ranges)
        self._units = UnitCheck()
        self._pairs: OrderedDict[tuple[str, str], PairHistory] = OrderedDict()
        self._temporal = TemporalFilter(options.temporal_window_s, self._pairs) \
            if options.temporal_window_s > 0 else None
        self._learned: dict[str, Radio] = {}
        """Radios as their own messages place them, for ranges that others measure to them."""
        self._riding: set[str] = set()
        """Robots that are an end of ranges."""
        self._between = ''
        """Two radios with a range of which neither is on a robot."""

    def look(self, sample: RangeSample) -> None:
        """Judge the unit of a range, whether or not it is taken."""
        if 0 < sample.range_m < math.inf:
            self._units.add(
                self._options.scale * sample.range_m, (sample.source, sample.target),
                self._travelled_m(sample))

    def _tracks(self, sample: RangeSample) -> list[Track]:
        """Odometry of the robots at both ends that have some."""
        numbers = (self._shared.numbers.get(self._radios.robot_of(name))
                   for name in (sample.source, sample.target))
        return [self._shared.tracks[k] for k in numbers if k is not None]

    def _travelled_m(self, sample: RangeSample) -> float:
        """Odometry of both ends together since the start."""
        return sum(track.travelled_m for track in self._tracks(sample))

    def check(self, sample: RangeSample, stamp_ns: int) -> PendingRange | str:
        o, ends = self._options, self._ends(sample)
        if isinstance(ends, str):
            return ends
        source, target = ends
        distance = o.scale * sample.range_m - o.bias_m - source.bias_m - target.bias_m
        if distance < o.min_m or distance <= 0:
            return 'too_short'
        if distance > o.max_m:
            return 'too_long'
        variance = self._variance(sample, distance, ends)
        blocked = sample.los == BLOCKED or (
            sample.los == 0 and 0 < o.nlos_rssi_gap_db < sample.rx_rssi - sample.first_path_rssi)
        if blocked and o.nlos == 'drop':
            return 'blocked'
        if blocked and o.nlos == 'inflate':
            variance *= o.nlos_sigma_scale**2
            self.counters.warnings['blocked'] += 1
        source = self._antenna(sample, source)
        if target.robot and not any(target.lever):
            target = self._learned.get(sample.target, target)
        rise = target.height_m - source.height_m
        if self._config.dimension == 2 and math.isfinite(rise) and rise != 0.0:
            # To the plane: r = sqrt(d^2 - h^2), dr/dd = d / r.
            square = distance**2 - rise**2
            if square <= 0:
                return 'shorter_than_height_difference'
            distance, variance = math.sqrt(square), variance * distance**2 / square
        pair = min(sample.source, sample.target), max(sample.source, sample.target)
        history = self._pairs.setdefault(pair, PairHistory())
        self._pairs.move_to_end(pair)
        oldest = next(iter(self._pairs))
        if len(self._pairs) > MAX_PAIRS and not self._pairs[oldest].waiting:
            del self._pairs[oldest]
        if any(known.stamp_ns == stamp_ns and known.source == sample.source
               and known.antenna == sample.frame_id
               for known in (*history.waiting[-RECENT:], *history.recent)):
            return 'duplicate'
        if self._frozen(sample, history, stamp_ns):
            return 'frozen'
        numbers = self._shared.numbers
        return PendingRange(
            stamp_ns, tuple((numbers[end.robot], stamp_ns) if end.robot else None
                            for end in (source, target)), (), (source, target), pair, pair,
            sample.source, sample.frame_id, distance, believed_m2(o, variance))

    def _frozen(self, sample: RangeSample, history: PairHistory, stamp_ns: int) -> bool:
        """Whether a pair says the same again and again although its robots drive; that is told."""
        tracks = [track for track in self._tracks(sample) if track.poses]
        # Coordinates of another segment of odometry are no motion.
        segments = tuple(track.segment for track in tracks)
        before, repeats = history.repeats.get(sample.source, (segments, Repeats()))
        if before != segments:
            repeats = Repeats()
        history.repeats[sample.source] = segments, repeats
        repeats.add(sample.range_m, *(
            value for track in tracks for value in track.poses[-1][:self._config.dimension]))
        if repeats.changes < FROZEN or not repeats.frozen(FROZEN, FROZEN_WAY_M):
            return False
        names = f'{sample.source} and {sample.target}'
        self._events.add(stamp_ns, Finding(
            'range_frozen', names, f'the range between {names} repeats to the last digit while '
            'they move: what its driver repeats is not used'))
        return True

    def _ends(self, sample: RangeSample) -> tuple[Radio, Radio] | str:
        """Both radios of a range, or the reason why it is no range between two known ones."""
        if not math.isfinite(sample.range_m):
            return 'not_finite'
        if sample.range_m <= 0:
            return 'not_positive'
        if sample.source == sample.target:
            return 'self_range'
        ignored = self._options.unknown_radios == 'ignore'
        source, target = (
            self._radios.find(name, ignored) for name in (sample.source, sample.target))
        if source is None or target is None or not sample.source or not sample.target:
            return 'unknown_radio'
        if source.robot == target.robot and source.beacon == target.beacon:
            return 'self_range'
        if source.beacon and target.beacon and self._radios.beacon(source.beacon).fixed \
                and self._radios.beacon(target.beacon).fixed:
            return 'between_known_beacons'
        return source, target

    def _antenna(self, sample: RangeSample, source: Radio) -> Radio:
        """The radio of the antenna frame that a message names, else the source itself."""
        frame = sample.frame_id
        if not frame or frame == sample.source or not source.robot:
            return source
        base = self._config.topic(self._config.frames.base, source.robot)
        if frame.lstrip('/') in (source.robot, base.lstrip('/')):
            # On the robot the radio is where it is configured to be.
            return source
        antenna = self._radios.find(frame, ignore_unknown=True)
        if antenna is not None and antenna.robot == source.robot:
            return antenna
        pose = self._shared.frames.on_robot(self._config, source.robot, frame)
        if pose is None:
            self.counters.warnings['unknown_antenna_frame'] += 1
            return source
        placed = replace(source, lever=pose[: len(source.lever)], height_m=pose[2])
        self._learned[sample.source] = placed
        return placed

    def _variance(self, sample: RangeSample, distance: float, ends: tuple[Radio, Radio]) -> float:
        o, given = self._options, sample.variance
        if all(end.range_sigma_m > 0 for end in ends):
            variance = ends[0].range_sigma_m**2 + ends[1].range_sigma_m**2 + (
                o.sigma_per_m * distance) ** 2
        elif o.use_message_variance and 0 < given <= LARGEST:
            variance = given * o.scale**2
        else:
            variance = o.sigma_m**2 + (o.sigma_per_m * distance) ** 2
        return believed_m2(o, variance)

    def _opposite(self, pending: PendingRange, other: PendingRange) -> bool:
        """True for the two directions of one exchange, where both are of one pair."""
        return (pending.source != other.source
                and abs(pending.stamp_ns - other.stamp_ns) <= self._merge_ns)

    def _hold(self, pending: PendingRange) -> None:
        self._clock.follow(pending.stamp_ns)
        self._riding |= {end.robot for end in pending.ends}
        if all(end.beacon for end in pending.ends):
            self._between = ' and '.join(pending.pair)
        history = self._pairs[pending.pair]
        for known in history.recent:
            if not known.merged and self._opposite(known, pending):
                # Its other direction left already: nothing to average with any more.
                known.merged = True
                self.counters.merge()
                return
        history.waiting.append(pending)
        self._order.push(pending, (pending.source, pending.pair))

    def _sorted(self, flush: bool) -> Iterator[PendingRange]:
        """Ranges whose time has come, oldest first, without those that do not fit their neighbours.
        """
        ready = self._exchanges(flush)
        if self._temporal is None:
            yield from ready
            return
        for pending, fits in self._temporal.judged(
                ready, self._clock.newest_ns - self._order.delay_ns, flush):
            if fits:
                yield pending
            else:
                self.counters.drop('off_in_time')

    def _exchanges(self, flush: bool) -> Iterator[PendingRange]:
        """Ranges whose time has come, oldest first, the other direction of each merged into it."""
        for pending in super()._sorted(flush):
            if pending.gone:
                continue
            history = self._pairs[pending.pair]
            history.waiting.remove(pending)
            partner = min((other for other in history.waiting if self._opposite(pending, other)),
                          key=lambda other: other.stamp_ns, default=None)
            if partner is not None:
                history.waiting.remove(partner)
                partner.gone = pending.merged = True
                # One exchange seen twice: the errors are common, so the noise stays the same.
                pending.distance_m = (pending.distance_m + partner.distance_m) / 2
                pending.variance = min(pending.variance, partner.variance)
                self.counters.merge()
            history.recent.append(pending)
            yield pending

    def row(self, assembly: Assembly, pending: PendingRange) -> str:
        """|t_j - t_i| with the antenna of each robot as it was at the instant."""
        (source, lever_source), (target, lever_target) = (
            assembly.end(radio, pending.places.get(end)) for end, radio in enumerate(pending.ends))
        assembly.add(RangeTable, source, target, lever_source, lever_target, pending.distance_m,
                     1 / pending.variance, pending.stamp_ns)
        return ''

    def findings(self) -> Iterator[Finding]:
        """Also a unit that is not metres, and radios on the wrong robot."""
        yield from (*self._units.findings(), *super().findings())
        without = [robot for robot in self._config.robots if robot not in self._riding]
        if without and self._between and self._radios.n_new:
            yield Finding(
                'configuration', 'radios', f'no range is of a radio on {", ".join(without)}; those '
                f'that the configuration puts on no robot are beacons, as {self._between}, between '
                f'which there are ranges: `radios` needs an entry `NAME: {{robot: {without[0]}}}`')
        refused, received = self.counters.dropped['self_range'], self.counters.received
        if refused < LEAST_SELF_RANGES or refused < SELF_SHARE * received:
            return
        owners = '; '.join(f'{owner}: {", ".join(names)}'
                           for owner, names in self._radios.shared.items())
        why = (f'`radios` of the configuration puts both on one robot or beacon ({owners}). A '
               'beacon needs `beacon: NAME` there in place of `robot: NAME`; `sparser info BAG '
               '--config NEW.yaml` drafts the entries from a recording' if owners else
               'both ends have the same name: see ranges.inputs')
        yield Finding('configuration', 'self ranges', f'{refused} of {received} ranges are refused '
                      f'as ranges of a radio to itself: {why}')


# -- neighbours in time ---------------------------------------------------------------------------

ORDER = 2
FEWEST = ORDER + 3
"""Ranges in a window; with fewer the fit goes through them whatever they are."""
MEMORY = 200
"""Residuals of a pair whose median counts: the standard deviation of a median of so many is 9 %."""
ROUNDS = 6
"""Reweightings of the fit."""
MADS = 5.0
"""Median absolute deviations off which a range is dropped."""
LEAST_MAD_M = 0.005
"""One tick of a UWB radio: ranges that repeat exactly have a median of zero."""


class TemporalFilter:
    """Ranges off a polynomial through their neighbours are dropped.

    A polynomial of second order is fitted to the ranges of a pair within a window of 2 s about each
    of them (Savitzky and Golay 1964; by a fit, since radios are not sampled evenly). A range that
    lies off by more than 5 times the median absolute deviation is dropped. Two things differ from
    the paper. The fit has the least sum of absolute values: one of least squares goes towards a
    blocked range of several metres and lets its neighbours look wrong. The median is that of the
    newest residuals of the pair; the paper takes all of a recording. Ranges wait for half a window.
    """

    def __init__(self, window_s: float, pairs: Mapping[tuple[str, str], PairHistory]) -> None:
        self._half_ns, self._pairs = nanoseconds(window_s / 2), pairs
        self._undecided = StampOrder(self._half_ns)

    def judged(
        self, ready: Iterable[PendingRange], newest_ns: int, flush: bool
    ) -> Iterator[tuple[PendingRange, bool]]:
        """Ranges whose window has closed, oldest first, and whether each fits its neighbours.

        `newest_ns`: none older than this comes any more. `flush`: none at all.
        """
        for pending in ready:
            self._pairs[pending.pair].window.append(pending)
            self._undecided.push(pending)
        for pending in self._undecided.released(newest_ns, flush):
            yield pending, self._fits(pending)

    def _fits(self, pending: PendingRange) -> bool:
        at_ns, history = pending.stamp_ns, self._pairs.get(pending.pair)
        if history is None or not history.window:
            # Of more pairs than are remembered.
            return True
        window = history.window
        # Late ranges stand behind newer ones.
        while window[0] is not pending and window[0].stamp_ns < at_ns - 2 * self._half_ns:
            window.popleft()
        near = [r for r in window if abs(r.stamp_ns - at_ns) <= self._half_ns]
        if len(near) < FEWEST:
            return True
        seconds = np.array([(r.stamp_ns - at_ns) * 1e-9 for r in near])
        distance = np.array([r.distance_m for r in near])
        powers = np.vander(seconds / (self._half_ns * 1e-9), ORDER + 1)
        # The last column is the constant: the fit at the range itself.
        residual = abs(pending.distance_m - _least_absolute(powers, distance))
        history.residuals.append(residual)
        return residual <= MADS * max(float(np.median(history.residuals)), LEAST_MAD_M)


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


# -- unit -----------------------------------------------------------------------------------------

REMEMBERED, LEAST_RATIOS = 51, 11
"""Newest ranges, and ratios, whose medians are judged; ratios from which theirs decides."""
SIZES_M, EITHER_M = (150.0, 15000.0), 500.0
"""Few UWB radios reach 150 m at all: a *median* beyond that is centimetres, or from 500 on (half a
metre) millimetres as well; 150 m in centimetres is 15000, and what is more must be millimetres."""
RATIOS = (10.0, 200.0)
"""Median ratio from where it means centimetres, and millimetres: |cos| x 100 and |cos| x 1000 have
the medians 64 and 637; the bounds lie halfway to them on a logarithmic scale."""
COMPARED_TRAVEL_M = 3.0
"""Odometry between two ranges that are compared: noise of 1 m then changes the ratio by 0.5."""
MOST_PAIRS = 100


class UnitCheck:
    """Plausibility of range units: centimetres and millimetres are the classic trap.

    A range between two radios changes by no more than they move. So the median change per metre
    that odometry says they moved is below 1 in metres, near 70 in centimetres and near 700 in
    millimetres, however far the radios reach. Where nothing has moved yet, the size must do.
    """

    def __init__(self) -> None:
        self._last: deque[float] = deque(maxlen=REMEMBERED)
        self._ratios: deque[float] = deque(maxlen=REMEMBERED)
        self._pairs: OrderedDict[tuple[str, str], tuple[float, float]] = OrderedDict()
        """Range and way of the newest pairs."""
        self._count = 0
        self._finding: Finding | None = None
        self.scale = 1.0
        """Factor that makes metres of the values, as far as it is known."""

    def add(self, distance_m: float, pair: tuple[str, str] = ('', ''),
            travelled_m: float = 0.0) -> None:
        """Take note of a positive, finite range in what the configuration takes for metres.

        `travelled_m`: odometry of both ends together since the start.
        """
        self._last.append(distance_m)
        self._count += 1
        before = self._pairs.get(pair)
        if before is None or travelled_m - before[1] >= COMPARED_TRAVEL_M:
            if before is not None:
                self._ratios.append(abs(distance_m - before[0]) / (travelled_m - before[1]))
            remember(self._pairs, pair, (distance_m, travelled_m), MOST_PAIRS)
        if self._count % REMEMBERED == 0:
            self._judge()

    def _judge(self) -> None:
        median = statistics.median_high(self._last)
        what = f'the median range is {median:.0f} m'
        moved = len(self._ratios) >= LEAST_RATIOS
        size, (centi, milli) = (
            (statistics.median_high(self._ratios), RATIOS) if moved else (median, SIZES_M))
        if moved:
            what += f' and changes by {size:.0f} m per metre of odometry'
        self._finding, self.scale = None, 1.0
        if size < centi:
            return
        unit, scale = ('millimetres', '0.001') if size >= milli else ('centimetres', '0.01')
        if not moved and EITHER_M <= size < milli:
            unit, scale = 'centimetres or millimetres (driving will tell)', '0.01 or 0.001'
        else:
            self.scale = float(scale)
        self._finding = Finding(
            'range_unit', 'ranges', f'{what}, which looks like {unit}: set scale: {scale} for that '
            'input (ranges.inputs.<name>.scale)', median, 'm')

    def findings(self) -> tuple[Finding, ...]:
        return (self._finding,) if self._finding is not None else ()
