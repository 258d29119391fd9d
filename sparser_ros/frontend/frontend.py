"""The front-end: stamped sensor data in any order in, increments of the graph out."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

from ..array_types import Array, Mask
from ..config import SparserConfig, SparserError
from ..graph import Increment
from ..graph.finding import Finding
from .assembly import Assembly, Intake, Shared
from .frames import StaticFrames
from .inputs import Route
from .levels import Attitudes, Heights
from .odometry import Odometry
from .poses import Closures, Fixes, Sightings
from .ranges import Ranges
from .samples import ClosureSample, FrameSample, OdometrySample, RangeSample, Refused, Sample
from .track import RecordedOdometry

_log = logging.getLogger(__name__)


class Frontend:
    """Validates, selects keyframes, attaches everything else to them, and counts what it refuses.

    Deterministic: it knows data time only. Not thread-safe.
    """

    def __init__(self, config: SparserConfig) -> None:
        self.config = config
        self.frames = StaticFrames()
        """Frames of sensors; they outlast a reset, for they are not sent again."""
        self._begin()

    def _begin(self) -> None:
        shared = Shared(self.config, self.frames)
        self.counters, self._events, self._clock = shared.counters, shared.events, shared.clock
        self._space, self._radios = shared.space, shared.radios
        self._numbers, self._tracks = shared.numbers, shared.tracks
        self._odometry = Odometry(shared)
        self._ranges, self._sightings = Ranges(shared), Sightings(shared)
        self._intakes: list[Intake] = [
            self._ranges, self._sightings, Closures(shared), Fixes(shared), Heights(shared),
            Attitudes(shared)]
        self._takers: dict[str, Odometry | Intake] = {
            'odometry': self._odometry, **{intake.kind: intake for intake in self._intakes}}
        self._assembly = Assembly(shared)
        self.thinnings = self.keyframes_thinned = 0

    def reset(self, config: SparserConfig | None = None) -> None:
        """Forget all data; the next increment has sequence 0.

        `config` has other known beacons than before; everything else in it must be the same.
        """
        if config is not None:
            self.config = self.config.with_radios_of(config)
        self._begin()

    # -- data in ---------------------------------------------------------------------------------

    def feed(self, route: Route, data: bytes, received_ns: int,
             deserialise: Callable[[str, bytes], Any]) -> int:
        """Decode the CDR bytes of a message of a topic and add what it holds; the samples taken.

        Never raises: a message that cannot be decoded is counted as `unreadable`, a sample at which
        this package fails as `internal_error`, with its traceback in the log.
        """
        try:
            samples = list(route.samples(data, received_ns, deserialise))
        except Exception as error:
            # A field that lacks, or holds another type; whatever a middleware raises at bytes.
            _log.debug('%s: unreadable: %r', route.topic, error)
            samples = [Refused(
                route.kind, 'unreadable', str(error) if isinstance(error, SparserError) else '')]
        return sum(self._fed(sample, route.topic) for sample in samples)

    def _fed(self, sample: Sample, topic: str) -> bool:
        counters = self.counters[sample.kind]
        waiting = counters.waiting
        try:
            if self.add(sample):
                return True
            self._events.refused(self._clock.newest_ns, topic, counters.refused,
                                 sample.detail if isinstance(sample, Refused) else '')
        except Exception:
            if counters.waiting > waiting:
                counters.drop('internal_error')
            else:  # it failed after the count
                counters.warnings['internal_error'] += 1
            _log.exception('a sample of %s could not be taken: %r', sample.kind, sample)
        return False

    def add(self, sample: Sample) -> bool:
        """Add any sample; False = refused, or a duplicate.

        True does not yet mean that odometry is believed, or that odometry will cover the sample.
        """
        counters = self.counters[sample.kind]
        counters.receive()
        if isinstance(sample, Refused):
            return counters.drop(sample.reason)
        if isinstance(sample, FrameSample):
            before = self.frames.revision
            taken = self.frames.add(sample, counters)
            if self.frames.revision != before:
                self._odometry.look_at_frames()
            return taken
        if isinstance(sample, ClosureSample):
            return self._takers[sample.kind].add(sample, 0)
        if isinstance(sample, RangeSample):
            self._ranges.look(sample)
        elif sample.robot not in self._numbers:
            return counters.drop('unknown_robot')
        elif isinstance(sample, OdometrySample):
            reason = self._odometry.fault(sample)
            if reason:
                return counters.drop(reason)
        stamp_ns = self._clock.stamp(sample)
        if isinstance(stamp_ns, str):
            return counters.drop(stamp_ns)
        if self.time_jump and stamp_ns is not None and self._clock.gone(stamp_ns):
            return counters.drop('time_backwards')
        # Without a stamp it waits until stamped sources tell.
        return stamp_ns is None or self._takers[sample.kind].add(sample, stamp_ns)

    # -- graph out -------------------------------------------------------------------------------

    def take(self, flush: bool = False) -> Increment | None:
        """New keyframes and what attaches to them; None = nothing new.

        `flush`: no more data are expected for now, so nothing waits any longer.
        """
        # What has no stamps, once it is known where the stamped sources live.
        for sample, stamp_ns in self._clock.settled(flush):
            self._takers[sample.kind].add(sample, stamp_ns)
        if flush:
            self._odometry.flush()
        self._assembly.begin()
        for intake in self._intakes:
            intake.attach(self._assembly, flush)
        return self._assembly.finish()

    def thin(self) -> Mask | None:
        """Forget old keyframes where there are too many, right after `take`; a mask (n,) of poses.

        True for those that go (graph/thinning.py); the next increment numbers the others without
        gaps. None = all stay. It depends on the data alone, and so comes at the same place again
        when they are taken in again.
        """
        drop = self._assembly.thin()
        if drop is not None:
            for intake in self._intakes:
                intake.detach()
            self.thinnings += 1
            self.keyframes_thinned += int(drop.sum())
        return drop

    # -- state -----------------------------------------------------------------------------------

    @property
    def newest_odometry_ns(self) -> dict[str, int]:
        """Stamp of the newest odometry of each robot that has any."""
        return {robot: self._tracks[number].stamps[-1] for robot, number in self._numbers.items()
                if self._tracks[number].stamps}

    def latest_odometry(self, robot: str) -> tuple[int, Array, Array] | None:
        """(stamp_ns, rotation (d, d), translation (d,)) of T_odom_base; None = no odometry."""
        number = self._numbers.get(robot)
        if number is None or not self._tracks[number].stamps:
            return None
        track = self._tracks[number]
        rotation, translation = self._space.arrays([track.poses[-1]])
        return track.stamps[-1], rotation[0], translation[0]

    def begun_anew_since(self, robot: str, stamp_ns: int) -> bool:
        """Whether odometry of a robot, which has some, has lost its frame after an instant."""
        return self._tracks[self._numbers[robot]].segment_begin_ns > stamp_ns

    def recorded_odometry(self) -> dict[str, RecordedOdometry]:
        """Recorded odometry of every robot."""
        return dict(zip(
            self.config.robots, (track.recorded for track in self._tracks), strict=True))

    @property
    def newest_stamp_ns(self) -> int:
        return self._clock.newest_ns

    @property
    def time_jump(self) -> bool:
        """True since all odometry that comes has gone back in time, and stayed there."""
        return self.counters.time_jumps > 0

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Faults of sources: those of now, and the events of the last half minute of data time;
        kinds of which all is refused; of the kind `configuration`: what of the data contradicts
        it."""
        return (*self._events.findings(self._clock.newest_ns), *self._odometry.findings(),
                *self._clock.findings(), *self._ranges.findings(),
                *self._sightings.findings(), *self.counters.findings(),
                *(Finding('configuration', text, text) for text in self._contradictions()))

    @property
    def events(self) -> tuple[tuple[int, Finding], ...]:
        """(data time in ns, fault) of the newest thousand events, and of refusals."""
        return self._events.everything

    def _contradictions(self) -> Iterator[str]:
        """Where configuration and data do not go together, in words."""
        frames = self._odometry.frame_warning()
        if frames:
            yield frames
        for name, metres in sorted(self.frames.too_far.items()):
            yield f'/tf_static puts {name} {metres:.0f} m from the base of its robot: not used'
        alone = self._radios.alone
        if alone and not self.config.fixes.topic:
            yield (f'beacon {alone} is the only one with a known position: it fixes where map is, '
                   'not how it is turned; the heading is that of the gauge robot at its start')
        if self.time_jump:
            yield ('time went backwards: data older than what is known are refused until a reset')
        if self.counters.internal_errors:
            yield (f'{self.counters.internal_errors} messages were lost to errors of this '
                   'package: see the tracebacks in the log')
