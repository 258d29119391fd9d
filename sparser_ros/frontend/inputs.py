"""Topics to listen to and their decoders, one table for node and replay; findings on topics that do
not go with it."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from ..config import SparserConfig
from ..config.errors import refuse
from ..config.inputs_config import (
    CLOSURE_TYPES,
    HEIGHT_FIELDS,
    KEYFRAME_TYPES,
    RANGE_TYPES,
    SIGHTING_TYPES,
    ClosureInput,
    RangeInput,
    SightingInput,
    radio_name,
)
from ..graph.finding import Finding
from . import samples
from .adapters import FieldPath, Fields, LinkTrack, SlamClosures, pair_range
from .samples import Sample

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
Decode = Callable[[Any, int], Iterable[Sample]]
"""(message, received_ns) -> samples."""
MEASURING = ('ranges', 'sightings', 'closures', 'fixes')
"""Kinds without any of which a map is odometry alone."""
OF_TOPIC = '{robot}'
"""Stands for the robot whose topic it is."""


@dataclass(frozen=True)
class Route:
    """One topic and what its messages become."""

    topic: str
    type: str
    """Message type, as in `nav_msgs/msg/Odometry`."""
    kind: str
    """One of `counters.KINDS`."""
    decoder: Callable[[Any, int], Sample | Iterable[Sample]]
    """(message, received_ns) -> sample or samples."""
    read: Callable[[bytes, int], Sample] | None = None
    """(CDR bytes, received_ns) -> sample; None = the message must become an object first."""
    expected: bool = True
    """Whether it is told where the topic is not there."""

    def samples(self, data: bytes, received_ns: int,
                deserialise: Callable[[str, bytes], Any]) -> Iterable[Sample]:
        """What the CDR bytes of a message hold; `deserialise(type, bytes)` makes objects of rare
        types. Raises whatever a wrong message leads to."""
        if self.read is not None and samples.readable(data):
            return (self.read(data, received_ns),)
        return self.decode(deserialise(self.type, data), received_ns)

    def decode(self, message: Any, received_ns: int) -> Iterable[Sample]:
        decoded = self.decoder(message, received_ns)
        return decoded if isinstance(decoded, Iterable) else (decoded,)


class Inputs:
    """The routes of a configuration; adapters keep what they must remember in here."""

    def __init__(self, config: SparserConfig) -> None:
        self._config = config
        self._patterns: list[tuple[re.Pattern[str], str, RangeInput | SightingInput]] = []
        """Regular expression, kind and options of topics that are not known beforehand."""
        self._remembering: list[LinkTrack | SlamClosures] = []
        self._by_topic: dict[str, Route] = {}
        fixes = config.fixes
        self._add(config.odometry.topic, ODOMETRY_TYPE, 'odometry',
                  samples.odometry, samples.read_odometry, robot=OF_TOPIC)
        datum = samples.Datum(fixes.datum, fixes.datum_heading_rad) if fixes.datum else None
        self._add(fixes.topic, fixes.type, 'fixes', samples.fix, robot=OF_TOPIC, datum=datum)
        self._add(fixes.initial_pose_topic, 'geometry_msgs/msg/PoseWithCovarianceStamped', 'fixes',
                  samples.fix, expected=False, initial=True, robot=(
                      fixes.initial_pose_robot or config.backend.gauge_robot or config.robots[0]))
        self._add(config.frames.static_topic, 'tf2_msgs/msg/TFMessage', 'frames',
                  samples.static_frames, expected=False)
        for ranges in config.range_inputs().values():
            self._ranges(ranges)
        for sighting in config.sighting_inputs().values():
            self._sightings(sighting)
        for closure in config.closure_inputs().values():
            self._closures(closure)
        if config.dimension == 3:
            for name, altimeter in config.height_inputs().items():
                path = FieldPath(altimeter.field or HEIGHT_FIELDS[altimeter.type])
                self._add(altimeter.topic, altimeter.type, 'heights', samples.height,
                          robot=OF_TOPIC, source=name, path=path, scale=altimeter.scale)
            self._add(config.attitudes.topic, IMU_TYPE, 'attitudes', samples.attitude,
                      robot=OF_TOPIC)
        self.routes = list(self._by_topic.values())
        """Topics whose names are known beforehand, each once."""

    def reset(self) -> None:
        """Forget what adapters remember of messages."""
        for adapter in self._remembering:
            adapter.reset()

    @property
    def pattern_kinds(self) -> frozenset[str]:
        """Kinds of input of which some topics are known by regular expressions only."""
        return frozenset(kind for _, kind, _ in self._patterns)

    def match(self, topic: str, type_name: str = '') -> Route | None:
        """The route of an existing topic; None = not an input of ours."""
        known = self._by_topic.get(_key(topic))
        if known is not None:
            return known
        for pattern, kind, source in self._patterns:
            hit = pattern.fullmatch(topic) or pattern.fullmatch('/' + _key(topic)) \
                or pattern.fullmatch(_key(topic))
            if hit is None:
                continue
            decoder: Callable[[Any, int], Sample]
            if isinstance(source, RangeInput):
                usual = RANGE_TYPES[source.adapter]
                template = source.radio_format or '{id}'
                decoder = partial(
                    pair_range, scale=source.scale,
                    source=radio_name(source.source_format or template, hit['source']),
                    target=radio_name(source.target_format or template, hit['target']))
            else:
                usual = SIGHTING_TYPES[source.adapter]
                decoder = partial(
                    samples.landmark_pose,
                    robot=hit.groupdict().get('robot', self._config.robots[0]), landmark=(
                        source.landmark_format or '{id}').replace('{id}', hit['landmark']))
            route = self._by_topic[_key(topic)] = Route(
                topic, type_name or source.type or usual, kind, decoder)
            return route
        return None

    def _add(
        self, template: str, type_name: str, kind: str, decoder: Callable[..., Any],
        reader: Callable[..., Any] | None = None, *, expected: bool = True, **options: Any,
    ) -> None:
        """Routes of a topic, if it has a name: of every robot, or of nobody ('') in particular.

        `options`: of decoder and reader; OF_TOPIC stands for the robot.
        """
        robots = self._config.robots
        for robot in robots if '{robot}' in template or len(robots) == 1 else ['']:
            own = {name: robot if value == OF_TOPIC else value for name, value in options.items()}
            if template:
                self._join(Route(
                    self._config.topic(template, robot), type_name, kind, partial(decoder, **own),
                    partial(reader, **own) if reader else None, expected))

    def _join(self, route: Route) -> None:
        """Take in a route; several of one topic become one, which reads a message by each."""
        known = self._by_topic.setdefault(_key(route.topic), route)
        if known is route:
            return
        refuse(known.type != route.type, f'topic {route.topic}: {OPTION[known.kind]} and '
               f'{OPTION[route.kind]} read it as {known.type} and {route.type}: a topic has one '
               'type')
        self._by_topic[_key(route.topic)] = replace(
            known, read=None, decoder=partial(_by_both, known.decode, route.decode),
            expected=known.expected or route.expected)

    def _ranges(self, source: RangeInput) -> None:
        usual = RANGE_TYPES.get(source.adapter, '')
        type_name = source.type or usual
        if source.adapter == 'pair_topic':
            self._patterns.append((re.compile(source.topic), 'ranges', source))
        elif source.adapter == 'fields':
            self._add(source.topic, type_name, 'ranges', Fields(source), robot=OF_TOPIC)
        elif source.adapter == 'linktrack':
            self._remembering.append(link := LinkTrack(source))
            self._add(source.topic, type_name, 'ranges', link)
        else:
            self._add(source.topic, type_name, 'ranges', samples.uwb_range,
                      samples.read_range if type_name == usual else None, scale=source.scale)

    def _sightings(self, source: SightingInput) -> None:
        if source.adapter == 'pose_topic':
            robots = '|'.join(map(re.escape, self._config.robots))
            pattern = source.topic.replace('{robot}', f'(?P<robot>{robots})')
            self._patterns.append((re.compile(pattern), 'sightings', source))
            return
        usual = SIGHTING_TYPES[source.adapter]
        self._add(source.topic, source.type or usual, 'sightings', samples.landmark_sighting)

    def _closures(self, source: ClosureInput) -> None:
        topics = {source.topic: source.type or CLOSURE_TYPES[source.adapter],
                  source.keyframe_topic: source.keyframe_type or KEYFRAME_TYPES.get(
                      source.adapter, '')}
        system = SlamClosures(source, self._config.robots) \
            if source.adapter != 'loop_closure' else None
        self._remembering += [] if system is None else [system]
        for topic, type_name in topics.items():
            if system is None:
                self._add(topic, type_name, 'closures', samples.loop_closure)
            else:
                self._add(topic, type_name, 'closures', system, robot=OF_TOPIC)


def _by_both(first: Decode, second: Decode, message: Any, received_ns: int) -> list[Sample]:
    return [*first(message, received_ns), *second(message, received_ns)]


def _key(topic: str) -> str:
    return topic.lstrip('/')


def topic_findings(
    inputs: Inputs, topics: Mapping[str, str], known: Collection[str] = ()
) -> tuple[Finding, ...]:
    """Findings on existing topics (name: type) that do not go with the configuration.

    `known`: topics that are used otherwise, such as ground truth.
    """
    routes = {topic: route for topic, kind in topics.items()
              if (route := inputs.match(topic, kind)) is not None}
    unused = {topic: kind for topic, kind in topics.items()
              if topic not in routes and topic not in known}
    heard = {_key(route.topic) for route in routes.values()}
    findings = []
    for route in inputs.routes:
        if _key(route.topic) in heard or not route.expected:
            continue
        alike = [topic for topic, kind in unused.items() if kind == route.type]
        near = difflib.get_close_matches(route.topic, alike, n=1, cutoff=0.0)
        if near or route.kind in NEEDED:
            meant = f'; is {near[0]} meant?' if near else ''
            findings.append(Finding(
                'input_unheard', route.topic,
                f'there is no topic {route.topic} ({OPTION[route.kind]}){meant}'))
        heard.update(map(_key, near))
    findings += [Finding(
        'input_unheard', OPTION[kind],
        f'no topic matches the regular expressions of {OPTION[kind]}')
        for kind in sorted(inputs.pattern_kinds - {route.kind for route in routes.values()})]
    findings += [Finding(
        'input_type', topic,
        f'{topic} is a {topics[topic]}, but {OPTION[route.kind]} expects {route.type}')
        for topic, route in routes.items() if route.type and topics[topic] != route.type]
    for kind, what in sorted(INPUT_TYPES.items()):
        names = sorted(topic for topic, own in unused.items()
                       if own == kind and _key(topic) not in heard)
        if names:
            findings.append(Finding(
                'input_unused', names[0], f'not used, although of type {kind}: {", ".join(names)} '
                f'(see robots and {OPTION[what]})'))
    return tuple(findings)
