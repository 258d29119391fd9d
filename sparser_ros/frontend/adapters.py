"""Messages of other packages to samples, by field names alone: drivers of radios, detectors of
landmarks, SLAM systems that find loop closures."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from ..array_types import Array
from ..config.inputs_config import PATH_STEP, ClosureInput, RangeInput, radio_name
from .decode import covariance, point, quaternion, stamp
from .samples import ClosureSample, RangeSample, Refused, Sample, SightingSample

NAN = float('nan')
ROLES = ('node', 'anchor', 'tag', 'console', 'master', 'slave', 'monitor')
"""Of LinkTrack."""
ROTATION_FIRST = [3, 4, 5, 0, 1, 2]
NO_COVARIANCE = np.zeros((6, 6))
KIMERA_CLOSURE = 1
RTABMAP_CLOSURES = (1, 2, 3, 4)
"""Global, local in space, local in time, by the user."""


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

    def fault(self, message: Any) -> str:
        """The field that a message lacks, and those it has, in words."""
        for step in self.steps:
            if isinstance(step, str) and not hasattr(message, step):
                names: Iterable[str] = getattr(message, 'get_fields_and_field_types', dict)()
                names = names or getattr(message, '__dataclass_fields__', ())
                there = ', '.join(name for name in names if not name.startswith('_'))
                return f'{type(message).__name__.lstrip("_")} has no field {step!r}' + (
                    f'; it has {there}' if there else '')
            if not isinstance(step, str):
                break
            message = getattr(message, step)
        return 'no such entry'

    def __call__(self, message: Any, entry: int = 0) -> Any:
        """The value; AttributeError or IndexError where the path does not exist."""
        for step in self.steps:
            message = getattr(message, step) if isinstance(step, str) \
                else message[entry if step is None else step]
        return message


class Fields:
    """The adapter `fields`: one message, or a list in it, with a range each.

    Paths are looked up in the list's element first and then in the message, so that a list of
    ranges may share one source or stamp; an array of numbers has no fields, and its elements are
    the ranges where no path says otherwise. `sigma` is a standard deviation, `variance` its
    square; both are in units of the message. `los` holds the values of `UwbRange.los`; `nlos` is
    true or non-zero without line of sight.
    """

    def __init__(self, options: RangeInput, robot: str = '') -> None:
        self._paths = {name: FieldPath(text) for name, text in options.fields.items()}
        if options.targets:
            self._paths.setdefault('range', FieldPath(''))
        self._source_format = options.source_format or options.radio_format or '{id}'
        self._target_format = options.target_format or options.radio_format or '{id}'
        self._scale = options.scale
        self._source = options.source or robot
        self._targets = options.targets

    def __call__(self, msg: Any, received_ns: int) -> Iterator[Sample]:
        """The ranges of one message."""
        elements = [msg]
        if 'list' in self._paths:
            try:
                elements = list(self._paths['list'](msg))
            except (AttributeError, IndexError, TypeError):
                yield Refused('ranges', 'unreadable',
                              f'fields.list: {self._paths["list"].fault(msg)}')
                return
        for entry, element in enumerate(elements):
            if self._targets and not any(self._targets[entry:entry + 1]):
                yield Refused('ranges', 'no_name')
                continue
            # Numbers of numpy have fields of their own, such as `data`.
            try:
                yield self._sample(_plain(element), entry, msg, received_ns)
            except (AttributeError, IndexError, TypeError, ValueError, OverflowError) as error:
                detail = self._fault(element, entry, msg) or str(error)
                yield Refused('ranges', 'unreadable', detail)

    def _fault(self, element: Any, entry: int, msg: Any) -> str:
        """The first path that leads nowhere, in words; '' = all of them lead to something."""
        for name in self._paths:
            if name != 'list':
                try:
                    self._value(name, element, entry, msg)
                except (AttributeError, IndexError, TypeError):
                    return f'fields.{name}: {self._paths[name].fault(element)}'
        return ''

    def _value(self, name: str, element: Any, entry: int, msg: Any, default: Any = None) -> Any:
        path = self._paths.get(name)
        if path is None:
            return default
        if path.steps and isinstance(element, (int, float, str)):
            return path(msg, entry)
        try:
            return path(element, entry)
        except (AttributeError, IndexError):
            if element is msg:
                raise
            return path(msg, entry)

    def _sample(self, element: Any, entry: int, msg: Any, received_ns: int) -> RangeSample:
        def value(name: str, default: Any = None) -> Any:
            return self._value(name, element, entry, msg, default)

        variance = float(value('variance', NAN)) * self._scale**2
        if 'sigma' in self._paths:
            variance = (float(value('sigma')) * self._scale) ** 2
        los = int(value('los', 0))
        if 'nlos' in self._paths:
            los = 2 if value('nlos') else 1
        source = self._source if 'source' not in self._paths else radio_name(
            self._source_format, _plain(value('source')))
        target = self._targets[entry] if self._targets else radio_name(
            self._target_format, _plain(value('target')))
        return RangeSample(
            source, target, self._stamp(element, entry, msg), received_ns,
            float(value('range')) * self._scale, variance, '',
            float(value('first_path_rssi', NAN)), float(value('rx_rssi', NAN)), los)

    def _stamp(self, element: Any, entry: int, msg: Any) -> int:
        if 'stamp' in self._paths:
            value = self._value('stamp', element, entry, msg)
            if hasattr(value, 'nanosec'):
                return stamp(value)
            # Integers count nanoseconds, floats seconds.
            return value if isinstance(value, int) else round(float(value) * 1e9)
        for holder in (element, msg):
            header = getattr(holder, 'header', None)
            if header is not None:
                return stamp(header.stamp)
        return 0


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

    def _name(self, role: int, number: int) -> str:
        role_name = ROLES[role] if 0 <= role < len(ROLES) else f'role{role}'
        return radio_name(self._format, number, role_name)

    def __call__(self, msg: Any, received_ns: int) -> Iterator[Sample]:
        """The ranges of one frame; a frame that was seen already gives none."""
        source = self._name(int(msg.role), int(msg.id))
        ranges = list(self._ranges(msg))
        system_ms = int(msg.system_time)
        if system_ms == 0 and int(msg.local_time) == 0:
            yield from (Refused('ranges', 'no_frame_yet') for _ in ranges)
            return
        if self._last.get(source) == system_ms:
            yield from (Refused('ranges', 'repeated_frame') for _ in ranges)
            return
        self._last[source] = system_ms
        stamp_ns = self._stamp(msg)
        for target, distance, first_path, total in ranges:
            yield RangeSample(source, target, stamp_ns, received_ns, distance * self._scale, NAN,
                              '', first_path, total)

    def _ranges(self, msg: Any) -> Iterator[tuple[str, float, float, float]]:
        for node in getattr(msg, 'nodes', ()):
            yield (self._name(int(node.role), int(node.id)), float(node.dis),
                   _power(node.fp_rssi), _power(node.rx_rssi))
        for anchor, distance in enumerate(getattr(msg, 'dis_arr', ())):
            # A tag frame has a fixed array; 0 marks anchors that were not heard.
            if float(distance) > 0:
                yield self._name(1, anchor), float(distance), NAN, NAN

    def _stamp(self, msg: Any) -> int:
        header = getattr(msg, 'header', None)
        if header is not None:
            return stamp(header.stamp)
        time = getattr(msg, 'stamp', None)
        return stamp(time) if time is not None else 0


def _power(value: float) -> float:
    """dBm; 0 means not measured."""
    value = float(value)
    return value if value < 0 else math.nan


class PairTopic:
    """The adapter `pair_topic`: one topic per pair of radios, which the regular expression of the
    input names, of `sensor_msgs/Range`, `std_msgs/Float64` or alike."""

    def __init__(self, source: str, target: str, options: RangeInput) -> None:
        template = options.radio_format or '{id}'
        self._source = radio_name(options.source_format or template, source)
        self._target = radio_name(options.target_format or template, target)
        self._scale = options.scale

    def __call__(self, msg: Any, received_ns: int) -> Iterator[Sample]:
        """One range; a message without header gets stamp 0 (= by reception)."""
        value = getattr(msg, 'range', None)
        if value is None:
            value = getattr(msg, 'data', None)
        if value is None:
            yield Refused('ranges', 'unreadable')
            return
        header = getattr(msg, 'header', None)
        limit = float(getattr(msg, 'max_range', 0.0))
        # sensor_msgs/Range: beyond max_range means nothing was measured; 0 = limits not filled.
        if math.isfinite(limit) and limit > 0 and float(value) > limit:
            yield Refused('ranges', 'beyond_sensor')
            return
        # The field exists from ROS Iron on; 0 = unknown.
        variance = float(getattr(msg, 'variance', 0.0)) * self._scale**2
        yield RangeSample(
            self._source, self._target, stamp(header.stamp) if header is not None else 0,
            received_ns, float(value) * self._scale, variance)


class LandmarkPose:
    """The adapter `pose_topic`: PoseStamped, PoseWithCovarianceStamped or PointStamped of one
    landmark in the frame of the sensor; turns are not used.

    A tag's turn, seen by one camera, has two solutions that fit almost alike (Schweighofer and
    Pinz 2006); its position has one.
    """

    def __init__(self, robot: str, landmark: str) -> None:
        self._robot = robot
        self._landmark = landmark

    def __call__(self, msg: Any, received_ns: int) -> Iterator[Sample]:
        """One sighting."""
        spread = np.zeros((3, 3))
        place = getattr(msg, 'point', None)
        if place is None:
            pose = msg.pose
            if hasattr(pose, 'covariance'):
                spread, pose = covariance(pose.covariance)[:3, :3], pose.pose
            place = getattr(pose, 'position', None)
        if place is None:
            yield Refused('sightings', 'unreadable')
            return
        yield SightingSample(
            self._robot, self._landmark, stamp(msg.header.stamp), received_ns, point(place),
            spread, msg.header.frame_id)


class KeyframeIds:
    """Stamps of the keyframes that a SLAM system has announced, and its closures told so far."""

    def __init__(self, options: ClosureInput, robots: Sequence[str]) -> None:
        self._names = options.robots
        self._robots = robots
        self._order = options.covariance_order
        self._stamps: dict[tuple[str, int], int] = {}
        self._told: set[Hashable] = set()

    def robot(self, number: Any) -> str:
        """Name of the system's robot id; the id itself where it has none."""
        name = self._names.get(str(number))
        if name is not None:
            return name
        if not self._names and isinstance(number, int) and 0 <= number < len(self._robots):
            return self._robots[number]
        return str(number)

    def announce(self, robot: str, key: int, stamp_ns: int) -> None:
        """A keyframe exists."""
        if stamp_ns:
            self._stamps[robot, key] = stamp_ns

    def told(self, identity: Hashable) -> bool:
        """True for a closure that came before; these systems send their whole graph every time."""
        return identity in self._told

    def closure(self, ends: tuple[tuple[str, int], tuple[str, int]], received_ns: int,
                position: Array, quat: Array, spread: Array, detector: str,
                identity: Hashable = None) -> Sample:
        """A closure between keyframes (robot, key); refused until both are announced."""
        (from_robot, _), (to_robot, _) = ends
        from_ns, to_ns = (self._stamps.get(end, 0) for end in ends)
        if not from_ns or not to_ns:
            return Refused('closures', 'unknown_keyframe')
        if identity is not None:
            self._told.add(identity)
        return ClosureSample(from_robot, from_ns, to_robot, to_ns, received_ns, position, quat,
                             spread, NAN, detector)

    def covariance(self, values: Any, usually_rotation_first: bool) -> Array:
        """(6, 6) with the translation first."""
        matrix = covariance(values)
        rotation_first = self._order == 'rotation_first' or (
            self._order == 'auto' and usually_rotation_first)
        return matrix[np.ix_(ROTATION_FIRST, ROTATION_FIRST)] if rotation_first else matrix


class Kimera:
    """Kimera and Kimera-Multi: `pose_graph_tools_msgs` PoseGraph, LoopClosures and PoseGraphEdge.

    Edges refer to keyframe ids, whose stamps stand in the nodes of the pose graphs. Covariances are
    in the order of GTSAM (rotation first), zeros where they were not filled in.
    """

    def __init__(self, options: ClosureInput, robots: Sequence[str]) -> None:
        self._ids = KeyframeIds(options, robots)

    def __call__(self, msg: Any, received_ns: int) -> Iterator[Sample]:
        """Remember the nodes; yield the loop closures that were not told before."""
        ids = self._ids
        for node in getattr(msg, 'nodes', ()):
            ids.announce(ids.robot(int(node.robot_id)), int(node.key), stamp(node.header.stamp))
        edges = getattr(msg, 'edges', None)
        if edges is None:
            edges = [msg] if hasattr(msg, 'key_from') else []
        for edge in edges:
            if int(edge.type) != KIMERA_CLOSURE:
                continue
            ends = ((ids.robot(int(edge.robot_from)), int(edge.key_from)),
                    (ids.robot(int(edge.robot_to)), int(edge.key_to)))
            if not ids.told(ends):
                yield ids.closure(
                    ends, received_ns, point(edge.pose.position),
                    quaternion(edge.pose.orientation), ids.covariance(edge.covariance, True),
                    'kimera', ends)


class RtabMap:
    """RTAB-Map: `rtabmap_msgs/MapData`; links refer to node ids, nodes carry their time, the
    information is translation first."""

    def __init__(self, options: ClosureInput, robots: Sequence[str]) -> None:
        self._ids = KeyframeIds(options, robots)

    def __call__(self, msg: Any, received_ns: int, robot: str = '') -> Iterator[Sample]:
        """Remember the nodes; yield the closures that were not told before."""
        ids = self._ids
        for node in getattr(msg, 'nodes', ()):
            ids.announce(robot, int(node.id), round(float(node.stamp) * 1e9))
        for link in getattr(msg, 'graph', msg).links:
            start, end = int(link.from_id), int(link.to_id)
            if int(link.type) not in RTABMAP_CLOSURES or min(start, end) <= 0:
                continue
            identity = (robot, min(start, end), max(start, end))
            if not ids.told(identity):
                yield ids.closure(
                    ((robot, start), (robot, end)), received_ns,
                    point(link.transform.translation), quaternion(link.transform.rotation),
                    _inverse(link.information), 'rtabmap', identity)


def _inverse(information: Any) -> np.ndarray:
    """Covariance of an information matrix; zeros (= configured) where it has none."""
    matrix = covariance(information)
    try:
        result = np.linalg.inv(matrix)
    except np.linalg.LinAlgError:
        return NO_COVARIANCE
    return result if np.all(np.isfinite(result)) else NO_COVARIANCE


class SwarmSlam:
    """Swarm-SLAM: `cslam_common_interfaces` loop closures within and between robots.

    Closures refer to keyframe ids; `KeyframeOdom` says when a keyframe was. Closures within a robot
    and keyframes do not name their robot: the topic does.
    """

    def __init__(self, options: ClosureInput, robots: Sequence[str]) -> None:
        self._ids = KeyframeIds(options, robots)

    def __call__(self, msg: Any, received_ns: int, robot: str = '') -> Iterator[Sample]:
        """Remember a keyframe, or yield a closure."""
        ids = self._ids
        if hasattr(msg, 'odom'):
            ids.announce(robot, int(msg.id), stamp(msg.odom.header.stamp))
            return
        if not msg.success:
            yield Refused('closures', 'not_successful')
            return
        if hasattr(msg, 'robot0_id'):
            ends = ((ids.robot(int(msg.robot0_id)), int(msg.robot0_keyframe_id)),
                    (ids.robot(int(msg.robot1_id)), int(msg.robot1_keyframe_id)))
        else:
            ends = (robot, int(msg.keyframe0_id)), (robot, int(msg.keyframe1_id))
        yield ids.closure(ends, received_ns, point(msg.transform.translation),
                          quaternion(msg.transform.rotation), NO_COVARIANCE, 'swarm_slam')
