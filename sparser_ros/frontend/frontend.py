"""The front-end: stamped sensor data in any order in, increments of the graph out."""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..config import SparserConfig
from ..graph import Increment
from .absolute import ClosureGate, FixGate, PendingClosure, PendingFix, bad_quaternion
from .assembly import Assembly
from .counters import Counters
from .decode import Refused, Sample
from .inputs import Route
from .motion import geometry
from .noise import noise_model
from .odometry import Track
from .radios import Radios
from .range_filter import PendingRange, RangeFilter
from .samples import ClosureSample, FixSample, OdometrySample, RangeSample
from .stamps import DataClock, nanoseconds, offset_ns
from .units import UnitCheck
from .waiting import Waiting, WaitingList

Array = NDArray[np.float64]
MAX_UNSTAMPED = 10000
Unplaced = OdometrySample | RangeSample | FixSample


class Frontend:
    """Validates, selects keyframes, attaches everything else to them, and counts what it refuses.

    Deterministic: it knows data time only. Not thread-safe.
    """

    def __init__(self, config: SparserConfig) -> None:
        self.config = config
        self._space = geometry(config.dimension)
        self._noise = noise_model(config.dimension)
        self._numbers = {name: number for number, name in enumerate(config.robots)}
        self._back_ns = nanoseconds(config.stamps.backward_jump_s)
        self._timeout_ns = nanoseconds(config.stamps.timeout_s)
        self._fix_interval_ns = nanoseconds(config.fixes.min_interval_s)
        self._begin()

    def _begin(self) -> None:
        config = self.config
        self.counters = Counters()
        self.time_jump = False
        """True since a robot's odometry went back in time, and stayed there."""
        self._clock = DataClock(config.stamps)
        self._radios = Radios(config)
        self._units = UnitCheck()
        self._tracks = [Track(number, config, self._space, self._noise)
                        for number in range(len(config.robots))]
        count = self.counters
        self._filter = RangeFilter(config, self._radios, count.ranges)
        self._closure_gate = ClosureGate(config, self._space, self._noise, count.closures)
        self._fix_gate = FixGate(config, self._space, count.fixes)
        self._ranges: WaitingList[PendingRange] = WaitingList(
            self._tracks, self._timeout_ns, count.ranges)
        self._closures: WaitingList[PendingClosure] = WaitingList(
            self._tracks, self._timeout_ns, count.closures)
        self._fixes: WaitingList[PendingFix] = WaitingList(
            self._tracks, self._timeout_ns, count.fixes)
        self._unstamped: deque[Unplaced] = deque()
        self._known_closures: OrderedDict[tuple[int, int, int, int], None] = OrderedDict()
        self._backward: dict[int, int] = {}
        self._last_fix_ns: dict[int, int] = {}
        self._frames_seen: set[tuple[str, str, str]] = set()
        self._assembly = Assembly(
            config.robots, self._space, self._tracks, self._radios, self._closure_gate,
            self._fix_gate)

    def reset(self, keep_beacons: bool = False,
              positions: Mapping[str, Sequence[float]] | None = None,
              sigma_m: float = 0.1) -> None:
        """Forget all data; the next increment has sequence 0.

        With `keep_beacons` the beacons at `positions` (map frame) become priors of `sigma_m`, so
        that the map frame survives.
        """
        self._begin()
        if keep_beacons and positions:
            self._radios.know(positions, sigma_m)

    # -- data in ---------------------------------------------------------------------------------

    def feed(self, route: Route, message: Any, received_ns: int) -> int:
        """Decode a message of a topic and add what it holds; returns the samples taken."""
        taken = 0
        try:
            for sample in route.decode(message, received_ns):
                taken += self.add(sample)
        except (AttributeError, TypeError, ValueError, IndexError):
            self.add(Refused(route.kind, 'unreadable'))
        return taken

    def add(self, sample: Sample) -> bool:
        """Add any sample; False = refused, or a duplicate."""
        if isinstance(sample, OdometrySample):
            return self.add_odometry(sample)
        if isinstance(sample, RangeSample):
            return self.add_range(sample)
        if isinstance(sample, ClosureSample):
            return self.add_closure(sample)
        if isinstance(sample, FixSample):
            return self.add_fix(sample)
        counters = self.counters.kind(sample.kind)
        counters.received += 1
        return counters.drop(sample.reason)

    def add_odometry(self, sample: OdometrySample) -> bool:
        """Add a pose of a robot's odometry."""
        counters = self.counters.odometry
        counters.received += 1
        number = self._numbers.get(sample.robot)
        if number is None:
            return counters.drop('unknown_robot')
        position = sample.position_xyz.tolist()
        quat = sample.quat_xyzw.tolist()
        if not all(map(math.isfinite, position)):
            return counters.drop('not_finite')
        reason = bad_quaternion(quat)
        if reason:
            return counters.drop(reason)
        if abs(sum(c * c for c in quat) - 1) > 0.02:
            counters.warnings['quaternion_not_unit'] += 1
        stamp_ns = self._stamp(sample, sample.robot, self.config.odometry.time_offsets)
        if isinstance(stamp_ns, str):
            return counters.drop(stamp_ns)
        if stamp_ns is None:
            counters.waiting += 1
            return True
        return self._odometry(sample, number, stamp_ns)

    def _odometry(self, sample: OdometrySample, number: int, stamp_ns: int) -> bool:
        counters = self.counters.odometry
        track = self._tracks[number]
        if track.stamps and stamp_ns <= track.stamps[-1]:
            if stamp_ns == track.stamps[-1]:
                return counters.drop('duplicate')
            if track.stamps[-1] - stamp_ns <= self._back_ns:
                return counters.drop('out_of_order')
            self._backward[number] = self._backward.get(number, 0) + 1
            if not self.time_jump and \
                    self._backward[number] >= self.config.stamps.jump_messages:
                self.time_jump = True
                self.counters.time_jumps += 1
            return counters.drop('time_backwards')
        self._backward.pop(number, None)
        pose = self._space.pose(sample.position_xyz.tolist(), sample.quat_xyzw.tolist())
        warning = track.add(stamp_ns, pose, sample.pose_covariance, sample.twist_covariance)
        if warning:
            counters.warnings[warning] += 1
        frames = (sample.robot, sample.frame_id, sample.child_frame_id)
        if frames not in self._frames_seen and len(self._frames_seen) < 1000:
            self._frames_seen.add(frames)
            self._check_frames(*frames)
        self._clock.advance(stamp_ns)
        counters.accepted += 1
        return True

    def _check_frames(self, robot: str, frame: str, child: str) -> None:
        config = self.config
        for seen, template in ((frame, config.frames.odom), (child, config.frames.base)):
            if seen.lstrip('/') != config.topic(template, robot):
                self.counters.odometry.warnings['frame_id'] += 1

    def add_range(self, sample: RangeSample) -> bool:
        """Add a range; True does not yet mean that odometry will cover it."""
        counters = self.counters.ranges
        counters.received += 1
        if 0 < sample.range_m < math.inf:
            self._units.add(sample.range_m)
        stamp_ns = self._stamp(sample, sample.source, self.config.ranges.time_offsets)
        if isinstance(stamp_ns, str):
            return counters.drop(stamp_ns)
        if stamp_ns is None:
            counters.waiting += 1
            return True
        if not self._filter.add(sample, stamp_ns):
            return False
        self._clock.advance(stamp_ns)
        return True

    def add_closure(self, sample: ClosureSample) -> bool:
        """Add a loop closure; both stamps are required."""
        counters = self.counters.closures
        counters.received += 1
        start, end = (self._numbers.get(r) for r in (sample.from_robot, sample.to_robot))
        if start is None or end is None:
            return counters.drop('unknown_robot')
        if sample.from_stamp_ns <= 0 or sample.to_stamp_ns <= 0:
            return counters.drop('no_stamp')
        shift = offset_ns(self.config.closures.time_offsets, sample.detector)
        # The two instants are told in the time of the robots' odometry.
        clocks = self.config.odometry.time_offsets
        from_ns = sample.from_stamp_ns + shift + offset_ns(clocks, sample.from_robot)
        to_ns = sample.to_stamp_ns + shift + offset_ns(clocks, sample.to_robot)
        if self._clock.beyond(max(from_ns, to_ns)):
            return counters.drop('in_the_future')
        pending = self._closure_gate.check(sample)
        if isinstance(pending, str):
            return counters.drop(pending)
        key = (start, from_ns, end, to_ns)
        if key in self._known_closures or (end, to_ns, start, from_ns) in self._known_closures:
            return counters.drop('duplicate')
        self._known_closures[key] = None
        if len(self._known_closures) > 100000:
            self._known_closures.popitem(last=False)
        counters.waiting += 1
        self._closures.add(Waiting(pending, ((start, from_ns), (end, to_ns))))
        return True

    def add_fix(self, sample: FixSample) -> bool:
        """Add an absolute position or pose of a robot."""
        counters = self.counters.fixes
        counters.received += 1
        if sample.robot not in self._numbers:
            return counters.drop('unknown_robot')
        stamp_ns = self._stamp(sample, sample.robot, self.config.fixes.time_offsets)
        if isinstance(stamp_ns, str):
            return counters.drop(stamp_ns)
        if stamp_ns is None:
            counters.waiting += 1
            return True
        return self._fix(sample, stamp_ns)

    def _fix(self, sample: FixSample, stamp_ns: int) -> bool:
        counters, number = self.counters.fixes, self._numbers[sample.robot]
        pending = self._fix_gate.check(sample, stamp_ns)
        if isinstance(pending, str):
            return counters.drop(pending)
        last = self._last_fix_ns.get(number)
        if stamp_ns == last:
            return counters.drop('duplicate')
        if last is not None and abs(stamp_ns - last) < self._fix_interval_ns:
            return counters.drop('decimated')
        self._last_fix_ns[number] = stamp_ns
        self._clock.advance(stamp_ns)
        counters.waiting += 1
        self._fixes.add(Waiting(pending, ((number, stamp_ns),)))
        return True

    def _stamp(self, sample: Unplaced, source: str, offsets: Mapping[str, float]
               ) -> int | str | None:
        """The stamp in data time; None = kept until the lag of the sources is known."""
        stamp_ns = self._clock.place(sample.stamp_ns, sample.received_ns)
        if stamp_ns is None or (self._unstamped and sample.stamp_ns == 0):
            if len(self._unstamped) >= MAX_UNSTAMPED:
                return 'no_stamp'
            self._unstamped.append(sample)
            return None
        return stamp_ns if isinstance(stamp_ns, str) else stamp_ns + offset_ns(offsets, source)

    def _add_unstamped(self, flush: bool) -> None:
        """Place what has no stamps, once it is known where the stamped sources live."""
        config = self.config
        while self._unstamped:
            sample = self._unstamped[0]
            if not self._clock.settle(sample.received_ns, flush):
                return
            self._unstamped.popleft()
            stamp_ns = self._clock.place(0, sample.received_ns)
            assert isinstance(stamp_ns, int)
            if isinstance(sample, OdometrySample):
                self.counters.odometry.waiting -= 1
                self._odometry(sample, self._numbers[sample.robot], stamp_ns + offset_ns(
                    config.odometry.time_offsets, sample.robot))
            elif isinstance(sample, RangeSample):
                self.counters.ranges.waiting -= 1
                stamp_ns += offset_ns(config.ranges.time_offsets, sample.source)
                if self._filter.add(sample, stamp_ns):
                    self._clock.advance(stamp_ns)
            else:
                self.counters.fixes.waiting -= 1
                self._fix(sample, stamp_ns + offset_ns(config.fixes.time_offsets, sample.robot))

    # -- graph out -------------------------------------------------------------------------------

    def take(self, flush: bool = False) -> Increment | None:
        """New keyframes and what attaches to them; None = nothing new.

        `flush`: no more data are expected for now, so nothing waits any longer.
        """
        self._add_unstamped(flush)
        assembly, newest = self._assembly, self._clock.newest_ns
        assembly.begin()
        for pending in self._filter.release(newest, flush):
            stamp_ns = pending.stamp_ns
            self._ranges.add(Waiting(pending, tuple(
                (self._numbers[end.robot], stamp_ns) if end.robot else None
                for end in pending.ends)))
        self._ranges.resolve(newest, flush, assembly.range)
        self._closures.resolve(newest, flush, assembly.closure)
        self._fixes.resolve(newest, flush, assembly.fix)
        return assembly.finish()

    # -- state -----------------------------------------------------------------------------------

    def latest_odometry(self, robot: str) -> tuple[int, Array, Array] | None:
        """(stamp_ns, rotation (d, d), translation (d,)) of T_odom_base; None = no odometry."""
        number = self._numbers.get(robot)
        if number is None or not self._tracks[number].stamps:
            return None
        track = self._tracks[number]
        rotation, translation = self._space.arrays([track.poses[-1]])
        return track.stamps[-1], rotation[0], translation[0]

    @property
    def newest_stamp_ns(self) -> int:
        """Newest data time seen."""
        return self._clock.newest_ns

    @property
    def warnings(self) -> tuple[str, ...]:
        """What looks wrong in the data as a whole, in words."""
        texts = [self._units.warning] if self._units.warning else []
        if self.counters.odometry.warnings['frame_id']:
            robot, frame, child = next(
                f for f in sorted(self._frames_seen)
                if (f[1].lstrip('/'), f[2].lstrip('/')) != (
                    self.config.topic(self.config.frames.odom, f[0]),
                    self.config.topic(self.config.frames.base, f[0])))
            texts.append(
                f'odometry of {robot} has frames {frame!r} and {child!r}, but frames.odom and '
                f'frames.base say {self.config.topic(self.config.frames.odom, robot)!r} and '
                f'{self.config.topic(self.config.frames.base, robot)!r}')
        if self.time_jump:
            texts.append('time went backwards: data older than what is known are refused until '
                         'a reset')
        return tuple(texts)
