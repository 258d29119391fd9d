"""The front-end: stamped sensor data in any order in, increments of the graph out."""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ..array_types import Array, Mask
from ..config import SparserConfig
from ..graph import Increment
from ..graph.finding import Finding
from .absolute import ClosureGate, FixGate
from .absolute_intake import ClosureIntake, FixIntake
from .assembly import Assembly
from .bounds import Bounds
from .counters import Counters, KindCounters
from .decode import Refused, Sample
from .events import EventLog
from .inputs import Route
from .motion import geometry
from .noise import noise_model
from .odometry_intake import OdometryIntake
from .odometry_record import RecordedOdometry
from .radios import Radios
from .range_intake import RangeIntake
from .samples import (
    ClosureSample,
    FixSample,
    FrameSample,
    OdometrySample,
    RangeSample,
    SightingSample,
)
from .serialized import readable
from .sighting_gate import SightingGate
from .sighting_intake import SightingIntake
from .stamping import Stamping, Unplaced
from .stamps import DataClock
from .static_frames import StaticFrames
from .thinning_rule import ThinningRule

UNREADABLE = (
    AttributeError, TypeError, ValueError, LookupError, ArithmeticError, RuntimeError,
    struct.error)
"""What decoding raises at a message that lacks a field or holds another type in it."""
_log = logging.getLogger(__name__)


class Frontend:
    """Validates, selects keyframes, attaches everything else to them, and counts what it refuses.

    Deterministic: it knows data time only. Not thread-safe.
    """

    def __init__(self, config: SparserConfig) -> None:
        self.config = config
        self._space = geometry(config.dimension)
        self._numbers = {name: number for number, name in enumerate(config.robots)}
        self.frames = StaticFrames()
        """Where sensors sit; outlasts a reset, for it is not sent again."""
        self._begin()

    def _begin(self) -> None:
        config, space = self.config, self._space
        count = self.counters = Counters()
        bounds = Bounds(config)
        self._events = EventLog()
        self._clock = DataClock(config.stamps)
        self._radios = Radios(config)
        self._stamping = Stamping(config, self._clock, self._events, self._radios.robot_of)
        self._odometry = OdometryIntake(
            config, space, bounds, self._clock, count.odometry, self._events, self.frames)
        tracks = self._tracks = self._odometry.tracks
        self._ranges = RangeIntake(
            config, self._radios, tracks, bounds, self._clock, count.ranges, self._events,
            self.frames)
        sighting_gate = SightingGate(
            config, space, self._radios, count.sightings, bounds, self.frames)
        self._sightings = SightingIntake(
            config, sighting_gate, self._radios, tracks, self._clock, count.sightings, self._events,
            self.frames)
        closure_gate = ClosureGate(
            config, space, noise_model(config.dimension), count.closures, bounds)
        fix_gate = FixGate(config, space, count.fixes, bounds, self.frames)
        self._bounds = bounds
        self._closures = ClosureIntake(config, closure_gate, tracks, self._clock, count.closures)
        self._fixes = FixIntake(config, fix_gate, tracks, self._clock, count.fixes)
        self._thinning = ThinningRule(config)
        self._assembly = Assembly(
            config.robots, space, tracks, self._radios, closure_gate, fix_gate, bounds)

    def reset(self, keep_beacons: bool = False,
              positions: Mapping[str, Sequence[float]] | None = None,
              sigma_m: float = 0.1, config: SparserConfig | None = None) -> None:
        """Forget all data; the next increment has sequence 0.

        `config` has other known beacons than before; everything else in it must be the same.

        With `keep_beacons` the beacons at `positions` (map frame) become priors of `sigma_m`, so
        that the map frame survives.
        """
        if config is not None:
            self.config = self.config.with_radios_of(config)
        self._begin()
        if keep_beacons and positions:
            self._radios.know(positions, sigma_m)

    # -- data in ---------------------------------------------------------------------------------

    def feed(self, route: Route, message: Any, received_ns: int) -> int:
        """Decode a message of a topic and add what it holds; returns the samples taken.

        Never raises: a message that cannot be decoded is counted as `unreadable`, a sample at
        which this package fails as `internal_error`, with its traceback in the log.
        """
        taken = 0
        for sample in self._decoded(route, message, received_ns):
            taken += self._guarded(sample, route.topic)
        return taken

    def feed_bytes(self, route: Route, data: bytes, received_ns: int,
                   deserialise: Callable[[str, bytes], Any]) -> int:
        """As `feed`, from the CDR bytes of a message; `deserialise` makes objects of rare types."""
        if route.read is None or not readable(data):
            try:
                message = deserialise(route.type, data)
            except Exception as error:
                # Whatever a middleware raises at bytes that are no such message.
                _log.debug('%s: unreadable: %r', route.topic, error)
                return int(self._guarded(Refused(route.kind, 'unreadable'), route.topic))
            return self.feed(route, message, received_ns)
        try:
            sample = route.read(data, received_ns)
        except UNREADABLE as error:
            _log.debug('%s: unreadable: %r', route.topic, error)
            sample = Refused(route.kind, 'unreadable')
        return int(self._guarded(sample, route.topic))

    def _decoded(self, route: Route, message: Any, received_ns: int) -> Iterator[Sample]:
        try:
            yield from list(route.decode(message, received_ns))
        except UNREADABLE as error:
            _log.debug('%s: unreadable: %r', route.topic, error)
            yield Refused(route.kind, 'unreadable')

    def _guarded(self, sample: Sample, topic: str) -> bool:
        try:
            taken = self.add(sample)
            if not taken:
                self._events.refused(
                    self._clock.newest_ns, topic, self.counters.kind(self._kind(sample)).refused,
                    sample.detail if isinstance(sample, Refused) else '')
            return taken
        except Exception:
            kind = self._kind(sample)
            counters = self.counters.kind(kind)
            if counters.balanced:  # it failed after the count
                counters.warnings['internal_error'] += 1
            else:
                counters.drop('internal_error')
            _log.exception('a sample of %s could not be taken: %r', kind, sample)
            return False

    @staticmethod
    def _kind(sample: Sample) -> str:
        if isinstance(sample, Refused):
            return sample.kind
        return {OdometrySample: 'odometry', RangeSample: 'ranges', SightingSample: 'sightings',
                ClosureSample: 'closures', FixSample: 'fixes', FrameSample: 'frames'}[type(sample)]

    def add(self, sample: Sample) -> bool:
        """Add any sample; False = refused, or a duplicate."""
        if isinstance(sample, OdometrySample):
            return self.add_odometry(sample)
        if isinstance(sample, RangeSample):
            return self.add_range(sample)
        if isinstance(sample, SightingSample):
            return self.add_sighting(sample)
        if isinstance(sample, ClosureSample):
            return self.add_closure(sample)
        if isinstance(sample, FixSample):
            return self.add_fix(sample)
        if isinstance(sample, FrameSample):
            return self.add_frame(sample)
        counters = self.counters.kind(sample.kind)
        counters.received += 1
        return counters.drop(sample.reason)

    def add_odometry(self, sample: OdometrySample) -> bool:
        """Add a pose of a robot's odometry; True does not yet mean that it is believed."""
        counters = self.counters.odometry
        counters.received += 1
        if sample.robot not in self._numbers:
            return counters.drop('unknown_robot')
        reason = self._odometry.fault(sample)
        if reason:
            return counters.drop(reason)
        return self._stamped(sample, counters)

    def _add_odometry(self, number: int, sample: OdometrySample, stamp_ns: int) -> bool:
        before = self.time_jump
        taken = self._odometry.add(number, sample, stamp_ns)
        self.counters.time_jumps += self.time_jump and not before
        return taken

    def add_range(self, sample: RangeSample) -> bool:
        """Add a range; True does not yet mean that odometry will cover it."""
        counters = self.counters.ranges
        counters.received += 1
        self._ranges.look(sample)
        return self._stamped(sample, counters)

    def add_sighting(self, sample: SightingSample) -> bool:
        """Add the place of a landmark, as seen by a robot."""
        counters = self.counters.sightings
        counters.received += 1
        if sample.robot not in self._numbers:
            return counters.drop('unknown_robot')
        return self._stamped(sample, counters)

    def add_closure(self, sample: ClosureSample) -> bool:
        """Add a loop closure; both stamps are required."""
        self.counters.closures.received += 1
        return self._closures.add(sample)

    def add_fix(self, sample: FixSample) -> bool:
        """Add an absolute position or pose of a robot."""
        counters = self.counters.fixes
        counters.received += 1
        if sample.robot not in self._numbers:
            return counters.drop('unknown_robot')
        return self._stamped(sample, counters)

    def add_frame(self, sample: FrameSample) -> bool:
        """Learn where a frame sits, such as a sensor's on its robot."""
        self.counters.frames.received += 1
        before = self.frames.revision
        taken = self.frames.add(sample, self.counters.frames, self._bounds)
        if self.frames.revision != before:
            self._odometry.look_at_frames()
        return taken

    def _stamped(self, sample: Unplaced, counters: KindCounters) -> bool:
        """Take in a sample at its stamp; without one it waits until stamped sources tell."""
        stamp_ns = self._stamping.stamp(sample)
        if isinstance(stamp_ns, str):
            return counters.drop(stamp_ns)
        if stamp_ns is None:
            counters.waiting += 1
            return True
        return self._taken(sample, stamp_ns)

    def _taken(self, sample: Unplaced, stamp_ns: int) -> bool:
        if isinstance(sample, OdometrySample):
            return self._add_odometry(self._numbers[sample.robot], sample, stamp_ns)
        if isinstance(sample, RangeSample):
            return self._ranges.add(sample, stamp_ns)
        if isinstance(sample, SightingSample):
            return self._sightings.add(sample, stamp_ns)
        return self._fixes.add(sample, stamp_ns)

    def _add_unstamped(self, flush: bool) -> None:
        """Place what has no stamps, once it is known where the stamped sources live."""
        for sample, stamp_ns in self._stamping.settled(flush):
            self.counters.kind(self._kind(sample)).waiting -= 1
            self._taken(sample, stamp_ns)

    # -- graph out -------------------------------------------------------------------------------

    def take(self, flush: bool = False) -> Increment | None:
        """New keyframes and what attaches to them; None = nothing new.

        `flush`: no more data are expected for now, so nothing waits any longer.
        """
        self._add_unstamped(flush)
        if flush:
            self._odometry.flush()
        assembly = self._assembly
        assembly.begin()
        self._ranges.resolve(flush, assembly.range)
        self._sightings.resolve(flush, assembly.sighting)
        self._closures.resolve(flush, assembly.closure)
        self._fixes.resolve(flush, assembly.fix)
        return assembly.finish()

    def thin(self) -> Mask | None:
        """Forget old keyframes where there are too many, right after `take`; a mask (n,) of poses.

        True for those that go (graph/thinning.py); the next increment numbers the others without
        gaps. None = all stay. It depends on the data alone, and so comes at the same place again
        when they are taken in again.
        """
        drop = self._thinning.surplus(self._tracks, self._assembly.n_poses)
        if drop is None:
            return None
        self._assembly.thin(~drop)
        for intake in (self._ranges, self._sightings, self._closures, self._fixes):
            intake.detach()
        return drop

    @property
    def thinnings(self) -> int:
        """How often keyframes were thinned since the last reset."""
        return self._thinning.count

    @property
    def keyframes_thinned(self) -> int:
        """How many keyframes that has cost."""
        return self._thinning.gone

    # -- state -----------------------------------------------------------------------------------

    def latest_odometry(self, robot: str) -> tuple[int, Array, Array] | None:
        """(stamp_ns, rotation (d, d), translation (d,)) of T_odom_base; None = no odometry."""
        number = self._numbers.get(robot)
        if number is None or not self._tracks[number].stamps:
            return None
        track = self._tracks[number]
        rotation, translation = self._space.arrays([track.poses[-1]])
        return track.stamps[-1], rotation[0], translation[0]

    def recorded_odometry(self) -> dict[str, RecordedOdometry]:
        """What is kept of the odometry of every robot (`odometry.recorded_messages`)."""
        return dict(zip(
            self.config.robots, (track.recorded for track in self._tracks), strict=True))

    @property
    def newest_stamp_ns(self) -> int:
        """Newest data time seen."""
        return self._clock.newest_ns

    @property
    def time_jump(self) -> bool:
        """True since all odometry that comes has gone back in time, and stayed there."""
        return self._odometry.time_jump

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Faults of sources: those of now, and the events of the last half minute of data time."""
        return (*self._events.findings(self._clock.newest_ns), *self._odometry.findings(),
                *self._clock.clocks.findings(), *self._ranges.findings(),
                *self._sightings.findings())

    @property
    def events(self) -> tuple[tuple[int, Finding], ...]:
        """(data time in ns, fault) of the newest thousand events, and of refusals."""
        return self._events.everything

    @property
    def warnings(self) -> tuple[str, ...]:
        """What in the configuration does not go with the data, in words."""
        texts = [*self._ranges.hints(), *self._sightings.hints()]
        frames = self._odometry.frame_warning()
        if frames:
            texts.append(frames)
        texts += [
            f'/tf_static puts {name} {metres:.0f} m from the base of its robot: not used'
            for name, metres in sorted(self.frames.too_far.items())]
        alone = self._radios.alone
        if alone and not self.config.fixes.topic:
            texts.append(
                f'beacon {alone} is the only one with a known position: it fixes where map is, '
                'not how it is turned; the heading is that of the gauge robot at its start')
        if self.time_jump:
            texts.append('time went backwards: data older than what is known are refused until '
                         'a reset')
        if self.counters.internal_errors:
            texts.append(f'{self.counters.internal_errors} messages were lost to errors of this '
                         'package: see the tracebacks in the log')
        return tuple(texts)
