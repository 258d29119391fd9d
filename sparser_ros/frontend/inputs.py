"""Which topics to listen to, and how each is decoded: the same table for node and replay."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from ..config import SparserConfig
from ..config.inputs_config import (
    CLOSURE_TYPES,
    KEYFRAME_TYPES,
    RANGE_TYPES,
    SIGHTING_TYPES,
    ClosureInput,
    RangeInput,
    SightingInput,
)
from . import decode, serialized
from .adapters.fields import Fields
from .adapters.kimera import Kimera
from .adapters.landmark_pose import LandmarkPose
from .adapters.linktrack import LinkTrack
from .adapters.pair_topic import PairTopic
from .adapters.rtabmap import RtabMap
from .adapters.swarm_slam import SwarmSlam
from .geodesy import Datum

Decoder = Callable[[Any, int], Iterator[decode.Sample]]
Reader = Callable[[bytes, int], decode.Sample]


@dataclass(frozen=True)
class Route:
    """One topic and what its messages become."""

    topic: str
    type: str
    """Message type, as in `nav_msgs/msg/Odometry`."""
    kind: str
    """One of `counters.KINDS`."""
    decode: Decoder
    """(message, received_ns) -> samples."""
    read: Reader | None = None
    """(CDR bytes, received_ns) -> sample; None = the message must become an object first."""


class Inputs:
    """The routes of a configuration; adapters keep what they must remember in here."""

    def __init__(self, config: SparserConfig) -> None:
        self._config = config
        self._patterns: list[tuple[re.Pattern[str], RangeInput | SightingInput]] = []
        self._routes: list[Route] = []
        self._types: dict[str, tuple[str, ...]] = {}
        for robot in config.robots:
            self._add(config.odometry.topic, robot, 'nav_msgs/msg/Odometry', 'odometry',
                      functools.partial(_odometry, robot),
                      functools.partial(_read_odometry, robot))
        datum = None
        if config.fixes.datum:
            latitude, longitude, height = config.fixes.datum
            datum = Datum(latitude, longitude, height, config.fixes.datum_heading_rad)
        if config.fixes.topic:
            for robot in config.robots:
                self._add(config.fixes.topic, robot, config.fixes.type, 'fixes',
                          functools.partial(_fix, robot, datum))
        if config.fixes.initial_pose_topic:
            robot = (config.fixes.initial_pose_robot or config.backend.gauge_robot
                     or config.robots[0])
            self._add(config.fixes.initial_pose_topic, robot,
                      'geometry_msgs/msg/PoseWithCovarianceStamped', 'fixes',
                      functools.partial(_fix, robot, None))
        if config.frames.static_topic:
            self._add(config.frames.static_topic, '', 'tf2_msgs/msg/TFMessage', 'frames',
                      _static_frames)
        for source in config.range_inputs().values():
            self._ranges(source)
        for sighting in config.sighting_inputs().values():
            self._sightings(sighting)
        for closure in config.closure_inputs().values():
            self._closures(closure)
        self._found = {_key(route.topic): route for route in self._routes}

    @property
    def routes(self) -> tuple[Route, ...]:
        """Topics whose names are known beforehand."""
        return tuple(self._routes)

    @property
    def has_patterns(self) -> bool:
        """True if some topics are known by a regular expression only (look for them)."""
        return bool(self._patterns)

    @property
    def pattern_kinds(self) -> frozenset[str]:
        """Kinds of input whose topics are known by regular expressions."""
        return frozenset(_kind(source) for _, source in self._patterns)

    def match(self, topic: str, type_name: str = '') -> Route | None:
        """The route of an existing topic; None = not an input of ours."""
        found = self._found.get(_key(topic))
        if found is not None:
            return found
        for pattern, source in self._patterns:
            hit = pattern.fullmatch(topic) or pattern.fullmatch('/' + _key(topic)) \
                or pattern.fullmatch(_key(topic))
            if hit:
                route = self._found[_key(topic)] = self._by_name(topic, type_name, source, hit)
                return route
        return None

    def _by_name(self, topic: str, type_name: str, source: RangeInput | SightingInput,
                 hit: re.Match[str]) -> Route:
        """The route of a topic that matches a pattern."""
        if isinstance(source, RangeInput):
            decoder: Decoder = PairTopic(hit['source'], hit['target'], source)
        else:
            robot = hit['robot'] if 'robot' in hit.groupdict() else self._config.robots[0]
            landmark = (source.landmark_format or '{id}').replace('{id}', hit['landmark'])
            decoder = LandmarkPose(robot, landmark)
        usual = RANGE_TYPES if isinstance(source, RangeInput) else SIGHTING_TYPES
        return Route(
            topic, type_name or source.type or usual[source.adapter], _kind(source), decoder)

    def _add(self, template: str, robot: str, type_name: str, kind: str, decoder: Decoder,
             reader: Reader | None = None) -> None:
        self._routes.append(
            Route(self._config.topic(template, robot), type_name, kind, decoder, reader))

    def _robots(self, template: str) -> list[str]:
        return list(self._config.robots) if '{robot}' in template else ['']

    def _ranges(self, source: RangeInput) -> None:
        if source.adapter == 'pair_topic':
            self._patterns.append((re.compile(source.topic), source))
            return
        type_name = source.type or RANGE_TYPES[source.adapter]
        linktrack = LinkTrack(source)
        for robot in self._robots(source.topic):
            decoder: Decoder = linktrack
            reader: Reader | None = None
            if source.adapter == 'uwb_range':
                decoder = functools.partial(_uwb_range, source.scale)
                if type_name == RANGE_TYPES['uwb_range']:
                    reader = functools.partial(_read_range, source.scale)
            elif source.adapter == 'fields':
                decoder = Fields(source, robot)
            self._add(source.topic, robot, type_name, 'ranges', decoder, reader)

    def _sightings(self, source: SightingInput) -> None:
        if source.adapter == 'pose_topic':
            robots = '|'.join(map(re.escape, self._config.robots))
            pattern = source.topic.replace('{robot}', f'(?P<robot>{robots})')
            self._patterns.append((re.compile(pattern), source))
            return
        type_name = source.type or SIGHTING_TYPES[source.adapter]
        reader = serialized.landmark_sighting if type_name == SIGHTING_TYPES[source.adapter] \
            else None
        for robot in self._robots(source.topic):
            self._add(source.topic, robot, type_name, 'sightings', _landmark_sighting, reader)

    def _closures(self, source: ClosureInput) -> None:
        robots = self._config.robots
        type_name = source.type or CLOSURE_TYPES[source.adapter]
        adapter: Any = {'kimera': Kimera, 'swarm_slam': SwarmSlam, 'rtabmap': RtabMap}.get(
            source.adapter, lambda *_: _loop_closure)(source, robots)
        for template, kind in (
            (source.topic, type_name),
            (source.keyframe_topic,
             source.keyframe_type or KEYFRAME_TYPES.get(source.adapter, '')),
        ):
            if not template:
                continue
            for robot in self._robots(template):
                decoder: Decoder = adapter
                if source.adapter in ('swarm_slam', 'rtabmap'):
                    decoder = functools.partial(
                        adapter, robot=robot or (robots[0] if len(robots) == 1 else ''))
                self._add(template, robot, kind, 'closures', decoder)


def _key(topic: str) -> str:
    return topic.lstrip('/')


def _kind(source: RangeInput | SightingInput) -> str:
    return 'ranges' if isinstance(source, RangeInput) else 'sightings'


def _odometry(robot: str, msg: Any, received_ns: int) -> Iterator[decode.Sample]:
    yield decode.odometry(msg, robot, received_ns)


def _read_odometry(robot: str, data: bytes, received_ns: int) -> decode.Sample:
    return serialized.odometry(data, robot, received_ns)


def _read_range(scale: float, data: bytes, received_ns: int) -> decode.Sample:
    return serialized.uwb_range(data, scale, received_ns)


def _fix(robot: str, datum: Datum | None, msg: Any, received_ns: int) -> Iterator[decode.Sample]:
    yield decode.fix(msg, robot, received_ns, datum)


def _static_frames(msg: Any, received_ns: int) -> Iterator[decode.Sample]:
    yield from decode.static_frames(msg)


def _uwb_range(scale: float, msg: Any, received_ns: int) -> Iterator[decode.Sample]:
    sample = decode.uwb_range(msg, received_ns)
    if scale != 1.0:
        sample = decode.RangeSample(**{
            **vars(sample), 'range_m': sample.range_m * scale,
            'variance': sample.variance * scale**2})
    yield sample


def _landmark_sighting(msg: Any, received_ns: int) -> Iterator[decode.Sample]:
    yield decode.landmark_sighting(msg, received_ns)


def _loop_closure(msg: Any, received_ns: int) -> Iterator[decode.Sample]:
    yield decode.loop_closure(msg, received_ns)
