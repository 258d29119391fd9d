"""Topics to listen to and their decoders, one table for node and replay; findings on topics that do
not go with it."""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..config import SparserConfig
from ..config.inputs_config import (
    CLOSURE_TYPES,
    HEIGHT_FIELDS,
    KEYFRAME_TYPES,
    RANGE_TYPES,
    SIGHTING_TYPES,
    ClosureInput,
    HeightInput,
    RangeInput,
    SightingInput,
)
from ..graph.finding import Finding
from . import decode
from .adapters import (
    FieldPath,
    Fields,
    Kimera,
    LandmarkPose,
    LinkTrack,
    PairTopic,
    RtabMap,
    SwarmSlam,
)
from .samples import Sample

Decoder = Callable[[Any, int], Iterable[Sample]]
Reader = Callable[[bytes, int], Sample]
ODOMETRY_TYPE = 'nav_msgs/msg/Odometry'
IMU_TYPE = 'sensor_msgs/msg/Imu'
INPUT_TYPES = {
    ODOMETRY_TYPE: 'odometry',
    **dict.fromkeys(RANGE_TYPES.values(), 'ranges'),
    SIGHTING_TYPES['landmark_sighting']: 'sightings',
    **dict.fromkeys(CLOSURE_TYPES.values(), 'closures'),
}
"""Message types that are made for one kind of input; others, such as poses, serve many ends."""
OPTION = {
    'odometry': 'odometry.topic', 'ranges': 'ranges.inputs', 'sightings': 'sightings.inputs',
    'closures': 'closures.inputs', 'fixes': 'fixes.topic', 'frames': 'frames.static_topic',
    'heights': 'heights.inputs', 'attitudes': 'attitudes.topic'}
"""The parameter that names the topics of a kind of input."""
NEEDED = ('odometry', 'ranges')
"""Kinds whose absence is named even where no other topic could be meant."""

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
        for robot in config.robots:
            self._add(config.odometry.topic, robot, ODOMETRY_TYPE, 'odometry',
                      _one(decode.odometry, robot=robot),
                      functools.partial(decode.read_odometry, robot=robot))
        datum = None
        if config.fixes.datum:
            latitude, longitude, height = config.fixes.datum
            datum = decode.Datum(latitude, longitude, height, config.fixes.datum_heading_rad)
        if config.fixes.topic:
            for robot in config.robots:
                self._add(config.fixes.topic, robot, config.fixes.type, 'fixes',
                          _one(decode.fix, robot=robot, datum=datum))
        if config.fixes.initial_pose_topic:
            robot = (config.fixes.initial_pose_robot or config.backend.gauge_robot
                     or config.robots[0])
            self._add(config.fixes.initial_pose_topic, robot,
                      'geometry_msgs/msg/PoseWithCovarianceStamped', 'fixes',
                      _one(decode.fix, robot=robot))
        if config.frames.static_topic:
            self._add(config.frames.static_topic, '', 'tf2_msgs/msg/TFMessage', 'frames',
                      decode.static_frames)
        self._measured(config)
        self._by_topic = {_key(route.topic): route for route in self._routes}

    def _measured(self, config: SparserConfig) -> None:
        """Ranges, sightings, closures, and in space heights and attitudes."""
        for source in config.range_inputs().values():
            self._ranges(source)
        for sighting in config.sighting_inputs().values():
            self._sightings(sighting)
        for closure in config.closure_inputs().values():
            self._closures(closure)
        if config.dimension == 3:
            for name, altimeter in config.height_inputs().items():
                self._heights(name, altimeter)
            if config.attitudes.topic:
                for robot in config.robots:
                    self._add(config.attitudes.topic, robot, IMU_TYPE, 'attitudes',
                              _one(decode.attitude, robot=robot))

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
        known = self._by_topic.get(_key(topic))
        if known is not None:
            return known
        for pattern, source in self._patterns:
            hit = pattern.fullmatch(topic) or pattern.fullmatch('/' + _key(topic)) \
                or pattern.fullmatch(_key(topic))
            if hit:
                route = self._of_pattern(topic, type_name, source, hit)
                self._by_topic[_key(topic)] = route
                return route
        return None

    def _of_pattern(self, topic: str, type_name: str, source: RangeInput | SightingInput,
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
                decoder = _one(decode.uwb_range, scale=source.scale)
                if type_name == RANGE_TYPES['uwb_range']:
                    reader = functools.partial(decode.read_range, scale=source.scale)
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
        reader = decode.read_sighting if type_name == SIGHTING_TYPES[source.adapter] \
            else None
        for robot in self._robots(source.topic):
            self._add(source.topic, robot, type_name, 'sightings',
                      _one(decode.landmark_sighting), reader)

    def _closures(self, source: ClosureInput) -> None:
        robots = self._config.robots
        type_name = source.type or CLOSURE_TYPES[source.adapter]
        adapter: Any = {'kimera': Kimera, 'swarm_slam': SwarmSlam, 'rtabmap': RtabMap}.get(
            source.adapter, lambda *_: _one(decode.loop_closure))(source, robots)
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


    def _heights(self, name: str, source: HeightInput) -> None:
        field = source.field or HEIGHT_FIELDS[source.type]
        for robot in self._config.robots:
            self._add(source.topic, robot, source.type, 'heights', _one(
                decode.height, robot=robot, source=name, path=FieldPath(field),
                scale=source.scale))


def _one(function: Callable[..., Sample], **values: Any) -> Decoder:
    """A decoder of messages that hold one sample each."""
    return functools.partial(_decoded, function, values)


def _decoded(function: Callable[..., Sample], values: Mapping[str, Any], msg: Any,
             received_ns: int) -> Iterator[Sample]:
    yield function(msg, received_ns, **values)


def _key(topic: str) -> str:
    return topic.lstrip('/')


def _kind(source: RangeInput | SightingInput) -> str:
    return 'ranges' if isinstance(source, RangeInput) else 'sightings'


def topic_findings(
    inputs: Inputs, topics: Mapping[str, str], known: Collection[str] = ()
) -> tuple[Finding, ...]:
    """Findings on existing topics (name: type) that do not go with the configuration.

    `known`: topics that are used otherwise, such as ground truth.
    """
    routes = {topic: inputs.match(topic, kind) for topic, kind in topics.items()}
    unused = {
        topic: kind for topic, kind in topics.items()
        if routes[topic] is None and topic not in known}
    heard = {route.topic.lstrip('/') for route in routes.values() if route is not None}
    named: set[str] = set()
    findings = []
    for route in inputs.routes:
        if route.topic.lstrip('/') in heard or route.kind == 'frames':
            continue
        missing, meant = _missing(route, unused)
        named.add(meant)
        findings += missing
    kinds = {route.kind for route in routes.values() if route is not None}
    findings += [Finding(
        'input_unheard', OPTION[kind],
        f'no topic matches the regular expressions of {OPTION[kind]}')
        for kind in sorted(inputs.pattern_kinds - kinds)]
    findings += _mistyped(topics, routes)
    return (*findings, *_unused({
        topic: kind for topic, kind in unused.items() if kind in INPUT_TYPES and topic not in named
    }))


def _unused(topics: Mapping[str, str]) -> list[Finding]:
    """Topics of our message types that no parameter names, one sentence for each type."""
    findings = []
    for kind in sorted(set(topics.values())):
        names = sorted(topic for topic, own in topics.items() if own == kind)
        what = OPTION[INPUT_TYPES[kind]]
        findings.append(Finding(
            'input_unused', names[0],
            f'not used, although of type {kind}: {", ".join(names)} (see robots and {what})'))
    return findings


def _missing(route: Route, unused: Mapping[str, str]) -> tuple[list[Finding], str]:
    """A topic of the configuration that does not exist, and the one that may be meant."""
    alike = [topic for topic, kind in unused.items() if kind == route.type]
    near = difflib.get_close_matches(route.topic, alike, n=1, cutoff=0.0)
    if not near and route.kind not in NEEDED:
        return [], ''
    hint = f'; is {near[0]} meant?' if near else ''
    return [Finding(
        'input_unheard', route.topic,
        f'there is no topic {route.topic} ({OPTION[route.kind]}){hint}')], near[0] if near else ''


def _mistyped(topics: Mapping[str, str], routes: Mapping[str, Route | None]) -> list[Finding]:
    return [
        Finding('input_type', topic,
                f'{topic} is a {topics[topic]}, but {OPTION[route.kind]} expects {route.type}')
        for topic, route in routes.items()
        if route is not None and route.type and topics[topic] != route.type]
