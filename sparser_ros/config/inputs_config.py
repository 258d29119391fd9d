"""What the named entries of `radios` and of the inputs may say; errors begin with their name."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from .errors import ConfigError, refuse
from .option import build, dotted, option

T = TypeVar('T')


@dataclass(frozen=True)
class RadioSpec:
    """One radio: carried by a robot, or a beacon with or without a known position."""

    robot: str = option('', 'robot that carries the radio')
    lever_arm: list[float] = option(
        [], 'antenna in the base frame: x y z (x y in 2D: height unknown)', unit='m')
    beacon: str = option('', 'beacon that the radio is; its name in results')
    position: list[float] = option([], 'known position of the beacon in map', unit='m')
    sigma_m: float = option(
        0.0, 'standard deviation of that position per axis; 0 = exact', unit='m', lower=0.0)
    height_m: float | None = option(
        None, 'height of a beacon without known position, within sigma_m or 0.1 m (2D: for slant '
        'ranges)', unit='m')
    bias_m: float = option(
        0.0, 'subtracted from every range of this radio (antenna delay)', unit='m')
    range_sigma_m: float = option(
        0.0, 'its share of the noise of a range: where both radios have one, the variance is the '
        'sum of their squares and (ranges.sigma_per_m x range)^2, whatever messages claim; 0 = '
        'not used', unit='m', lower=0.0, upper=1e3)

    def check(self, where: str, robots: Collection[str], dimension: int) -> None:
        """Raise ConfigError where the entry contradicts itself or the team."""
        robot, beacon, sizes = self.robot, self.beacon, (2, 3) if dimension == 2 else (3,)
        refuse(bool(robot) == bool(beacon), f'{where}: give either robot or beacon')
        refuse(robot and robot not in robots,
               f'{where}.robot: {robot!r} is not in robots {list(robots)}')
        check_vector(self.lever_arm, sizes, f'{where}.lever_arm')
        check_vector(self.position, sizes, f'{where}.position')
        refuse(beacon in robots,
               f'{where}.beacon: {beacon!r} is a robot; a beacon needs another name')
        refuse(beacon and self.lever_arm, f'{where}.lever_arm: a beacon has none; use position')
        refuse(robot and (self.position or self.height_m is not None),
               f'{where}: a radio on a robot has a lever_arm, no position')


@dataclass(frozen=True)
class RangeInput:
    """One source of ranges: a topic, its message type and how to read it."""

    topic: str = option(
        '/uwb/ranges', 'topic; {robot} stands for every robot; with adapter pair_topic a regular '
        'expression with the groups source and target')
    adapter: str = option(
        'uwb_range', 'how to read the message',
        choices=('uwb_range', 'pair_topic', 'fields', 'linktrack'))
    type: str = option('', 'message type; empty = the usual one of the adapter')
    scale: float = option(
        1.0, 'metres per unit of the message (0.001 for millimetres)', unit='m',
        lower=1e-9, upper=1e6)
    radio_format: str = option(
        '', 'radio name made of {id} and, for linktrack, {role}; empty = {id}, linktrack '
        '{role}{id}; {id:04x} writes a number in hexadecimal with four digits')
    source_format: str = option(
        '', 'the same for the source alone, where tag 0 and anchor 0 are two radios: tag{id}')
    target_format: str = option('', 'the same for the target alone: anchor{id}')
    source: str = option(
        '', 'adapter fields: radio that measures, where the message does not name it')
    targets: list[str] = option(
        [], 'adapter fields: radios measured to, by their place in the array of ranges, where the '
        'message does not name them; empty names are left out')
    fields: dict[str, str] = option(
        {}, 'adapter fields: paths into the message for list, source, target, range, variance, '
        'sigma, stamp, first_path_rssi, rx_rssi, los, nlos: names, [3], [5::4] (every fourth from '
        'the sixth on), [] (as many as the entry of the list); empty = the entry itself')

    def check(self, where: str, robots: Collection[str]) -> None:
        """Raise ConfigError where names, topic or fields of the entry cannot be read."""
        for key in ('radio_format', 'source_format', 'target_format'):
            template = getattr(self, key)
            try:
                name = radio_name(template, 0)
            except ValueError:
                name = '{'
            refuse('{' in name, f'{where}.{key}: {template!r}: expected text with {{id}}, '
                   '{role} or a number format such as {id:04x}')
        _check_read(self, where)
        if self.adapter == 'pair_topic':
            refuse({'source', 'target'} - _groups(self.topic, where),
                   f'{where}.topic: needs the groups (?P<source>…) and (?P<target>…)')
        if self.adapter == 'fields':
            self._check_fields(where)

    def _check_fields(self, where: str) -> None:
        """The adapter `fields` needs a message type and the paths of source, target and range."""
        paths, targets, fields_ = self.fields, self.targets, f'{where}.fields'
        refuse(not self.type, f'{where}.type: adapter fields needs the message type')
        for key, path in paths.items():
            refuse(key not in FIELD_NAMES, f'{fields_}.{key}: not one of {", ".join(FIELD_NAMES)}')
            refuse(not PATH.fullmatch(path), f'{fields_}.{key}: {path!r} is no path such as '
                   'ranges[0].range, data[5::4] or distance[]')
            refuse(('[]' in path or not path) and 'list' not in paths,
                   f'{fields_}.list: a path is required, for {key} is of its entries')
        refuse('target' not in paths and not targets,
               f'{fields_}.target: a path is required, or the names in {where}.targets')
        refuse(targets and 'list' not in paths,
               f'{fields_}.list: the path of the array that targets are of')
        refuse(not targets and paths.get('target') == paths.get('range'),
               f'{fields_}.target: the same numbers as range: name the radios in {where}.targets')
        refuse('range' not in paths and not targets, f'{fields_}.range: a path is required')
        refuse('source' not in paths and not self.source and '{robot}' not in self.topic,
               f'{fields_}.source: give a path, or {where}.source, or a topic with {{robot}}, '
               'whose radio is then the source')


@dataclass(frozen=True)
class SightingInput:
    """One source of landmark sightings."""

    topic: str = option(
        '/landmark_sightings', 'topic; with adapter pose_topic a regular expression with the group '
        'landmark and, with several robots, {robot} or the group robot')
    adapter: str = option(
        'landmark_sighting', 'how to read the message; pose_topic: one topic for each landmark, of '
        'poses or points in the frame of the sensor',
        choices=('landmark_sighting', 'pose_topic'))
    type: str = option('', 'message type; empty = the usual one of the adapter')
    landmark_format: str = option('', 'landmark name made of {id}; empty = {id}')

    def check(self, where: str, robots: Collection[str]) -> None:
        """Raise ConfigError where the topic of `pose_topic` names no landmark, or no robot."""
        _check_read(self, where)
        if self.adapter != 'pose_topic':
            return
        groups = _groups(self.topic.replace('{robot}', '(?P<robot>x)'), where)
        refuse('landmark' not in groups, f'{where}.topic: needs the group (?P<landmark>…)')
        refuse(len(robots) > 1 and 'robot' not in groups,
               f'{where}.topic: needs {{robot}} or the group (?P<robot>…)')


@dataclass(frozen=True)
class ClosureInput:
    """One source of loop closures."""

    topic: str = option('/loop_closures', 'topic; {robot} stands for every robot')
    adapter: str = option(
        'loop_closure', 'how to read the message',
        choices=('loop_closure', 'kimera', 'swarm_slam', 'rtabmap'))
    type: str = option('', 'message type; empty = the usual one of the adapter')
    keyframe_topic: str = option(
        '', 'topic that gives the stamps of keyframe ids (swarm_slam: keyframe_odom, kimera: '
        'pose graph), where the closure itself does not')
    keyframe_type: str = option('', 'its message type; empty = the usual one of the adapter')
    robots: dict[str, str] = option(
        {}, 'robot names by the robot id of the front-end; empty = position in `robots`')

    def check(self, where: str, robots: Collection[str]) -> None:
        """Raise ConfigError where the entry names no robot, or another one than there is."""
        _check_read(self, where)
        for robot in self.robots.values():
            refuse(robot not in robots, f'{where}.robots: {robot!r} is not in robots')
        refuse(self.adapter == 'rtabmap' and '{robot}' not in self.topic and len(robots) > 1,
               f'{where}.topic: rtabmap messages do not name their robot; the topic must contain '
               '{robot}')


@dataclass(frozen=True)
class HeightInput:
    """One source of heights."""

    topic: str = option('/{robot}/altitude', 'topic of each robot')
    type: str = option(
        'geometry_msgs/msg/PointStamped', 'message type: PointStamped (z), std_msgs/msg/Float64, '
        'sensor_msgs/msg/Range, sensor_msgs/msg/FluidPressure, or any other with `field`')
    field: str = option(
        '', 'path of the number in the message, as current_distance or point.z; empty = that of '
        'the usual types')
    scale: float = option(
        1.0, 'metres (or Pa) per unit of the message; -1 turns a z that points down', unit='m',
        lower=-1e6, upper=1e6)
    measures: str = option(
        'height', 'what the number is: the height in map; the distance to the ground along the '
        'negative z axis of the base, whatever the robot leans; an air pressure, whose first '
        'reading is height 0', choices=('height', 'ground', 'pressure'))
    sigma_m: float = option(0.1, 'standard deviation', unit='m', lower=1e-3, upper=1e3)
    sigma_m_per_sqrt_s: float = option(
        0.0, 'by which it wanders from its first reading on (barometers: 0.02 to 0.2)',
        unit='m/sqrt(s)', lower=0.0, upper=10.0)
    correlation_s: float = option(
        10.0, 'readings within this time share their error: together they count as one', unit='s',
        lower=0.0, upper=1e5)
    offset_m: float = option(
        0.0, 'height of what counts as 0: of the ground, or of the take-off', unit='m',
        lower=-1e5, upper=1e5)
    offset_m_of: dict[str, float] = option(
        {}, 'the same by robot name, where robots differ', unit='m', lower=-1e5, upper=1e5)
    min_m: float = option(
        0.05, 'measures: ground: nearer readings are refused', unit='m', lower=0.0, upper=1e3)
    max_m: float = option(
        40.0, 'measures: ground: farther readings are refused', unit='m', lower=0.1, upper=1e4)
    lever_arm: list[float] = option([], 'sensor in the base frame, x y z', unit='m')
    lever_arm_of: dict[str, list[float]] = option(
        {}, 'the same by robot name, where airframes differ', unit='m')

    def of(self, robot: str) -> tuple[float, list[float]]:
        """Offset, and lever arm (3,), of one robot, metres."""
        return (self.offset_m_of.get(robot, self.offset_m),
                self.lever_arm_of.get(robot, self.lever_arm) or [0.0, 0.0, 0.0])

    def check(self, where: str, robots: Collection[str]) -> None:
        """Raise ConfigError where the number cannot be found, or topics are not told apart."""
        refuse(not self.field and self.type not in HEIGHT_FIELDS, f'{where}.field: give the path '
               f'of the number in a {self.type}, as current_distance')
        refuse(not PATH.fullmatch(self.field),
               f'{where}.field: {self.field!r} is no path such as point.z')
        refuse(len(robots) > 1 and '{robot}' not in self.topic,
               f'{where}.topic: must contain {{robot}} with several robots')
        refuse(self.measures == 'ground' and self.min_m >= self.max_m,
               f'{where}.min_m: {self.min_m} must be below max_m, {self.max_m}')
        check_vector(self.lever_arm, (3,), f'{where}.lever_arm')
        for name in ('offset_m_of', 'lever_arm_of'):
            for robot in getattr(self, name):
                refuse(robot not in robots, f'{where}.{name}.{robot}: no such robot')
        for robot, arm in self.lever_arm_of.items():
            check_vector(arm, (3,), f'{where}.lever_arm_of.{robot}')


HEIGHT_FIELDS = {
    'geometry_msgs/msg/PointStamped': 'point.z',
    'std_msgs/msg/Float64': 'data',
    'sensor_msgs/msg/Range': 'range',
    'sensor_msgs/msg/FluidPressure': 'fluid_pressure',
}
RANGE_TYPES = {
    'uwb_range': 'sparser_ros/msg/UwbRange',
    'pair_topic': 'sensor_msgs/msg/Range',
    'linktrack': 'nlink_parser_ros2_interfaces/msg/LinktrackNodeframe3',
}
SIGHTING_TYPES = {
    'landmark_sighting': 'sparser_ros/msg/LandmarkSighting',
    'pose_topic': 'geometry_msgs/msg/PoseStamped',
}
CLOSURE_TYPES = {
    'loop_closure': 'sparser_ros/msg/LoopClosure',
    'kimera': 'pose_graph_tools_msgs/msg/PoseGraph',
    'swarm_slam': 'cslam_common_interfaces/msg/InterRobotLoopClosure',
    'rtabmap': 'rtabmap_msgs/msg/MapData',
}
KEYFRAME_TYPES = {
    'kimera': 'pose_graph_tools_msgs/msg/PoseGraph',
    'swarm_slam': 'cslam_common_interfaces/msg/KeyframeOdom',
    'rtabmap': 'rtabmap_msgs/msg/MapData',
}
READ_BY = {
    'radio_format': ('pair_topic', 'fields', 'linktrack'),
    **dict.fromkeys(('source_format', 'target_format'), ('pair_topic', 'fields')),
    **dict.fromkeys(('source', 'targets', 'fields'), ('fields',)),
    'landmark_format': ('pose_topic',),
    'keyframe_topic': ('kimera', 'swarm_slam', 'rtabmap'),
    'keyframe_type': ('kimera', 'swarm_slam', 'rtabmap'),
    'robots': ('kimera', 'swarm_slam'),
}
"""Adapters that read an option; all read the others."""
FIELD_NAMES = (
    'list', 'source', 'target', 'range', 'variance', 'sigma', 'stamp', 'first_path_rssi',
    'rx_rssi', 'los', 'nlos',
)


PATH_STEP = re.compile(
    r'(?P<name>[A-Za-z_]\w*)|\[(?P<index>-?\d+)\]|\[(?P<entry>)\]'
    r'|\[(?P<first>-?\d*):(?P<last>-?\d*)(?::(?P<stride>\d+))?\]')
PATH = re.compile(rf'(?:{re.sub("[?]P<[a-z]+>", "", PATH_STEP.pattern)}|\.(?=[A-Za-z_]))*')
"""`ranges[2].range`, `data[5::4]`, `distance[]`."""
_ID = re.compile(r'\{id(?::([^{}]*))?\}')


def radio_name(template: str, number: Any, role: str = '') -> str:
    """The name of a radio by a template with {id}, {id:04x} and {role}.

    A whole number counts as such, whatever type an array has; text that is no number stays.
    ValueError for a format that is none.
    """
    if isinstance(number, float) and number.is_integer():
        number = int(number)

    def spelled(match: re.Match[str]) -> str:
        whole = isinstance(number, int) or (isinstance(number, str) and number.isdecimal())
        return format(int(number), match[1]) if match[1] and whole else str(number)

    return _ID.sub(spelled, template.replace('{role}', role))


def named(cls: type[T], entries: Mapping[Any, Any], prefix: str) -> dict[str, T]:
    """Build every entry of a mapping; errors name the entry, as in `radios.17.lever_arm`."""
    result: dict[str, T] = {}
    options = [f.name for f in fields(cls)]  # type: ignore[arg-type]
    allowed = ', '.join(options)
    for key, value in dotted(entries, frozenset(options)):
        name = f'{prefix}.{key}'
        refuse(not isinstance(value, Mapping),
               f'{name}: expected a mapping with some of {allowed}; got {value!r}')
        result[key] = build(cls, value, f'{name}.')
    return result


def check_vector(values: list[float], sizes: tuple[int, ...], name: str) -> None:
    """Raise ConfigError unless the list is empty or has an allowed length."""
    refuse(values and len(values) not in sizes,
           f'{name}: expected {" or ".join(map(str, sizes))} numbers, got {len(values)}')


def check_angles(angles: list[float], name: str) -> None:
    """Raise ConfigError where angles are larger than a turn, as those in degrees are."""
    refuse(any(abs(angle) > 2 * math.pi for angle in angles),
           f'{name}: expected angles in radians, got {angles}')


def _check_read(source: RangeInput | SightingInput | ClosureInput, where: str) -> None:
    """Raise ConfigError where an option is set that the adapter does not read."""
    for key, adapters in READ_BY.items():
        refuse(getattr(source, key, '') and source.adapter not in adapters,
               f'{where}.{key}: the adapter {source.adapter} does not read it, only '
               f'{" and ".join(adapters)}: remove it, or choose another adapter')


def _groups(pattern: str, where: str) -> set[str]:
    """The named groups of a topic that is a regular expression."""
    try:
        return set(re.compile(pattern).groupindex)
    except re.error as error:
        raise ConfigError(f'{where}.topic: not a regular expression: {error}') from None
