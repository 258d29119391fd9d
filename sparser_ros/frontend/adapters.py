"""Messages of other packages to samples, by field names alone: drivers of radios, and SLAM systems
that find loop closures."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from ..array_types import Array
from ..config import SparserError
from ..config.inputs_config import PATH_STEP, ClosureInput, RangeInput, radio_name
from .samples import (
    NAN,
    ClosureSample,
    RangeSample,
    Refused,
    Sample,
    covariance,
    header_stamp,
    point,
    quaternion,
    stamp,
)

ROLES = ('node', 'anchor', 'tag', 'console', 'master', 'slave', 'monitor')
"""Of LinkTrack."""
ROTATION_FIRST = [3, 4, 5, 0, 1, 2]
NO_COVARIANCE = np.zeros((6, 6))
KIMERA_CLOSURE = 1
RTABMAP_CLOSURES = (1, 2, 3, 4)
"""Global, local in space, local in time, by the user."""


class NoPath(SparserError):
    """A path leads nowhere in a message."""


class FieldPath:
    """`ranges[0].range` as a function of a message; `[]` is the place of an entry in the list."""

    def __init__(self, text: str) -> None:
        self.steps: list[str | int | slice | None] = []
        for step in PATH_STEP.finditer(text):
            if step['name']:
                self.steps.append(step['name'])
            elif step['index']:
                self.steps.append(int(step['index']))
            elif step['entry'] is not None:
                self.steps.append(None)
            else:
                first, last, stride = (
                    int(step[key]) if step[key] else None for key in ('first', 'last', 'stride'))
                self.steps.append(slice(first, last, stride))

    def __call__(self, message: Any, entry: int = 0) -> Any:
        """The value; NoPath names the field that a message lacks, and those it has."""
        for step in self.steps:
            try:
                message = getattr(message, step) if isinstance(step, str) \
                    else message[entry if step is None else step]
            except (AttributeError, IndexError, TypeError):
                if not isinstance(step, str):
                    raise NoPath('no such entry') from None
                names: Iterable[str] = getattr(message, 'get_fields_and_field_types', dict)()
                names = names or getattr(message, '__dataclass_fields__', ())
                there = ', '.join(name for name in names if not name.startswith('_'))
                raise NoPath(f'{type(message).__name__.lstrip("_")} has no field {step!r}' + (
                    f'; it has {there}' if there else '')) from None
        return message


class Fields:
    """The adapter `fields`: one message, or a list in it, with a range each.

    Paths are looked up in the list's element first and then in the message, so that a list of
    ranges may share one source or stamp; an array of numbers has no fields, and its elements are
    the ranges where no path says otherwise. `sigma` is a standard deviation, `variance` its
    square; both are in units of the message. `los` holds the values of `UwbRange.los`; `nlos` is
    true or non-zero without line of sight.
    """

    def __init__(self, options: RangeInput) -> None:
        self._paths = {name: FieldPath(text) for name, text in options.fields.items()}
        if options.targets:
            self._paths.setdefault('range', FieldPath(''))
        self._source_format = options.source_format or options.radio_format or '{id}'
        self._target_format = options.target_format or options.radio_format or '{id}'
        self._scale, self._source, self._targets = options.scale, options.source, options.targets

    def __call__(self, msg: Any, received_ns: int, robot: str) -> Iterator[Sample]:
        elements = [msg]
        if 'list' in self._paths:
            try:
                elements = list(self._paths['list'](msg))
            except (NoPath, TypeError) as error:
                yield Refused('ranges', 'unreadable', f'fields.list: {error}')
                return
        for entry, element in enumerate(elements):
            if self._targets and not any(self._targets[entry:entry + 1]):
                yield Refused('ranges', 'no_name')
                continue
            # Numbers of numpy have fields of their own, such as `data`.
            value = _plain(element)
            values = {'source': self._source or robot}
            try:
                for name, path in self._paths.items():
                    if name != 'list':
                        values[name] = self._value(path, value, entry, msg)
                yield self._sample(values, value, entry, msg, received_ns)
            except NoPath as error:
                yield Refused('ranges', 'unreadable', f'fields.{name}: {error}')
            except (AttributeError, TypeError, ValueError, OverflowError) as error:
                yield Refused('ranges', 'unreadable', str(error))

    @staticmethod
    def _value(path: FieldPath, element: Any, entry: int, msg: Any) -> Any:
        if path.steps and isinstance(element, (int, float, str)):
            return path(msg, entry)
        try:
            return path(element, entry)
        except NoPath:
            with suppress(NoPath):
                return path(msg, entry)
            raise

    def _sample(
        self, values: dict[str, Any], element: Any, entry: int, msg: Any, received_ns: int
    ) -> RangeSample:
        variance = float(values.get('variance', NAN)) * self._scale**2
        if 'sigma' in values:
            variance = (float(values['sigma']) * self._scale) ** 2
        los = int(values.get('los', 0))
        if 'nlos' in values:
            los = 2 if values['nlos'] else 1
        source = radio_name(self._source_format, _plain(values['source'])) \
            if 'source' in self._paths else values['source']
        target = self._targets[entry] if self._targets else radio_name(
            self._target_format, _plain(values['target']))
        when = _plain(values.get('stamp'))
        if when is None:
            stamp_ns = header_stamp(element) or header_stamp(msg)
        elif hasattr(when, 'nanosec'):
            stamp_ns = stamp(when)
        else:  # integers count nanoseconds, floats seconds
            stamp_ns = when if isinstance(when, int) else round(float(when) * 1e9)
        return RangeSample(
            source, target, stamp_ns, received_ns, float(values['range']) * self._scale, variance,
            '', float(values.get('first_path_rssi', NAN)), float(values.get('rx_rssi', NAN)), los)


def _plain(value: Any) -> Any:
    """A number of an array as one of Python."""
    return value.item() if hasattr(value, 'item') else value


class LinkTrack:
    """The adapter `linktrack`: Nooploop LinkTrack node frames 2, 3 and 5, and tag frame 0.

    Identifiers are unique only within a role, so a radio is called after both: `tag0`, `anchor0`.
    The driver exists with a header, with a stamp and with neither; some ports publish the last
    frame again and again, and zeros before the first one.
    """

    def __init__(self, options: RangeInput) -> None:
        self._format = options.radio_format or '{role}{id}'
        self._scale = options.scale
        self._last: dict[str, int] = {}

    def reset(self) -> None:
        """Forget the last frames."""
        self._last.clear()

    def _name(self, role: int, number: int) -> str:
        role_name = ROLES[role] if 0 <= role < len(ROLES) else f'role{role}'
        return radio_name(self._format, number, role_name)

    def __call__(self, msg: Any, received_ns: int) -> Iterator[Sample]:
        """The ranges of one frame; a frame that was seen already gives none."""
        source, system_ms = self._name(int(msg.role), int(msg.id)), int(msg.system_time)
        reason = 'no_frame_yet' if system_ms == 0 and int(msg.local_time) == 0 else \
            'repeated_frame' if self._last.get(source) == system_ms else ''
        if not reason:
            self._last[source] = system_ms
        stamp_ns = header_stamp(msg) or (stamp(msg.stamp) if hasattr(msg, 'stamp') else 0)
        ranges = [(self._name(int(node.role), int(node.id)), float(node.dis), _power(node.fp_rssi),
                   _power(node.rx_rssi)) for node in getattr(msg, 'nodes', ())]
        # A tag frame has a fixed array; 0 marks anchors that were not heard.
        ranges += [(self._name(1, anchor), float(distance), NAN, NAN) for anchor, distance
                   in enumerate(getattr(msg, 'dis_arr', ())) if float(distance) > 0]
        for target, distance, first_path, total in ranges:
            yield Refused('ranges', reason) if reason else RangeSample(
                source, target, stamp_ns, received_ns, distance * self._scale, NAN, '', first_path,
                total)


def _power(value: float) -> float:
    """dBm; 0 means not measured."""
    value = float(value)
    return value if value < 0 else math.nan


def pair_range(msg: Any, received_ns: int, source: str, target: str, scale: float) -> Sample:
    """The adapter `pair_topic`: one topic per pair of radios, which the regular expression of the
    input names, of `sensor_msgs/Range`, `std_msgs/Float64` or alike; without header by reception.
    """
    value = getattr(msg, 'range', getattr(msg, 'data', None))
    if value is None:
        return Refused('ranges', 'unreadable')
    # sensor_msgs/Range: beyond max_range means nothing was measured; 0 = limits not filled.
    if 0 < float(getattr(msg, 'max_range', 0.0)) < float(value):
        return Refused('ranges', 'beyond_sensor')
    # The field exists from ROS Iron on; 0 = unknown.
    variance = float(getattr(msg, 'variance', 0.0)) * scale**2
    return RangeSample(
        source, target, header_stamp(msg), received_ns, float(value) * scale, variance)


Keyframe = tuple[str, int, int]
"""Robot, id, stamp."""
Link = tuple[str, int, str, int, Callable[[], tuple[Array, Array, Array]]]
"""Robot and keyframe from which a closure is and to which; what reads its position, quaternion and
covariance: only those of closures that are new are asked for."""
Parts = tuple[Iterable[Keyframe], Iterable[Link | Refused]]
"""Of a message."""


class SlamClosures:
    """The adapters of SLAM systems: their closures refer to keyframes, whose stamps other messages
    or other parts of a message tell. Most send their whole graph every time.

    A function of each system splits a message, of a topic of `robot`, into keyframes and closures.
    """

    def __init__(self, options: ClosureInput, robots: Sequence[str]) -> None:
        self._read: Callable[..., Parts] = {
            'kimera': _kimera, 'swarm_slam': _swarm_slam, 'rtabmap': _rtabmap}[options.adapter]
        self._detector = options.adapter
        self._names = options.robots or {str(k): robot for k, robot in enumerate(robots)}
        self._stamps: dict[tuple[str, int], int] = {}
        self._told: set[frozenset[tuple[str, int]]] = set()

    def __call__(self, msg: Any, received_ns: int, robot: str) -> Iterator[Sample]:
        """Remember the keyframes; yield the closures that were not told before."""
        keyframes, links = self._read(msg, robot, self._name)
        self._stamps.update({(name, key): stamp for name, key, stamp in keyframes if stamp})
        for link in links:
            if isinstance(link, Refused):
                yield link
                continue
            start, from_key, end, to_key, values = link
            from_ns, to_ns = self._stamps.get((start, from_key)), self._stamps.get((end, to_key))
            if from_ns is None or to_ns is None:
                yield Refused('closures', 'unknown_keyframe')
                continue
            # A system that starts again numbers its keyframes anew.
            ends = frozenset({(start, from_ns), (end, to_ns)})
            if ends in self._told:
                continue
            measured = values()
            self._told.add(ends)
            yield ClosureSample(
                start, from_ns, end, to_ns, received_ns, *measured, detector=self._detector)

    def reset(self) -> None:
        """Forget all keyframes, and what was told."""
        self._stamps.clear()
        self._told.clear()

    def _name(self, number: int) -> str:
        """Name of the system's robot id; the id itself where it has none."""
        return self._names.get(str(number), str(number))


def _kimera(msg: Any, _robot: str, name: Callable[[int], str]) -> Parts:
    """Kimera and Kimera-Multi: `pose_graph_tools_msgs` PoseGraph, LoopClosures and PoseGraphEdge;
    covariances are in the order of GTSAM (rotation first), zeros where they were not filled in."""
    edges = getattr(msg, 'edges', [msg] if hasattr(msg, 'key_from') else [])
    return ([(name(int(node.robot_id)), int(node.key), stamp(node.header.stamp))
             for node in getattr(msg, 'nodes', ())],
            ((name(int(edge.robot_from)), int(edge.key_from), name(int(edge.robot_to)),
              int(edge.key_to), lambda edge=edge: (
                  point(edge.pose.position), quaternion(edge.pose.orientation),
                  covariance(edge.covariance)[np.ix_(ROTATION_FIRST, ROTATION_FIRST)]))
             for edge in edges if int(edge.type) == KIMERA_CLOSURE))


def _rtabmap(msg: Any, robot: str, _name: Callable[[int], str]) -> Parts:
    """RTAB-Map: `rtabmap_msgs/MapData`; links refer to node ids, nodes carry their time, the
    information is translation first."""
    return ([(robot, int(node.id), round(float(node.stamp) * 1e9))
             for node in getattr(msg, 'nodes', ())],
            ((robot, int(link.from_id), robot, int(link.to_id), lambda link=link: (
                point(link.transform.translation), quaternion(link.transform.rotation),
                _inverse(link.information)))
             for link in getattr(msg, 'graph', msg).links
             if int(link.type) in RTABMAP_CLOSURES and min(link.from_id, link.to_id) > 0))


def _swarm_slam(msg: Any, robot: str, name: Callable[[int], str]) -> Parts:
    """Swarm-SLAM: `cslam_common_interfaces` loop closures within and between robots, and
    `KeyframeOdom`. Closures within a robot and keyframes do not name their robot: the topic does.
    """
    if hasattr(msg, 'odom'):
        return [(robot, int(msg.id), stamp(msg.odom.header.stamp))], ()
    if not msg.success:
        return (), [Refused('closures', 'not_successful')]
    ends = (name(int(msg.robot0_id)), int(msg.robot0_keyframe_id), name(int(msg.robot1_id)),
            int(msg.robot1_keyframe_id)) if hasattr(msg, 'robot0_id') else (
        robot, int(msg.keyframe0_id), robot, int(msg.keyframe1_id))
    return (), [(*ends, lambda: (
        point(msg.transform.translation), quaternion(msg.transform.rotation), NO_COVARIANCE))]


def _inverse(information: Any) -> Array:
    """Covariance of an information matrix; zeros (= configured) where it has none."""
    with suppress(np.linalg.LinAlgError):
        result = np.linalg.inv(covariance(information))
        if np.all(np.isfinite(result)):
            return np.asarray(result)
    return NO_COVARIANCE
