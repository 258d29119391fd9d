"""The whole configuration: what a YAML file or the node's parameters say, checked at once."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from .backend_config import BackendConfig
from .calibration_config import CalibrationConfig
from .errors import ConfigError, refuse
from .frontend_config import (
    AttitudesConfig,
    ClosuresConfig,
    FixesConfig,
    FramesConfig,
    HeightsConfig,
    KeyframesConfig,
    OdometryConfig,
    RangesConfig,
    SightingsConfig,
    StampsConfig,
)
from .inputs_config import (
    ClosureInput,
    HeightInput,
    RadioSpec,
    RangeInput,
    SightingInput,
    check_angles,
    check_vector,
    named,
)
from .node_config import NodeConfig
from .option import build, merged, nested, option, walk
from .solver_config import LIVE_SOLVER, SolverConfig
from .yaml_file import NODE, YamlFile

ROS_OWN = ('use_sim_time', 'qos_overrides', 'start_type_description_service')
"""Parameters that rclpy itself owns; they may stand in the same file."""


@dataclass(frozen=True)
class SparserConfig:
    """All options of front-end, back-end, solver and node."""

    dimension: int = option(2, 'plane (2) or space (3)', choices=(2, 3))
    robots: list[str] = option(['robot'], 'names of the robots; the first is the default gauge')
    odometry_noise: str = option(
        'configured', 'meaning of odometry covariances: pose.covariance of the increment since '
        'the previous message, or of the whole way; twist.covariance; or the configured noise',
        choices=('pose_increment', 'pose_accumulated', 'twist', 'configured'))
    radios: dict[str, dict] = option(
        {}, 'what a radio name is: {robot, lever_arm, bias_m} or {beacon, position, sigma_m, '
        'height_m, bias_m}, each with range_sigma_m; a radio named like a robot is that robot')
    frames: FramesConfig = FramesConfig()
    stamps: StampsConfig = StampsConfig()
    odometry: OdometryConfig = OdometryConfig()
    keyframes: KeyframesConfig = KeyframesConfig()
    ranges: RangesConfig = RangesConfig()
    sightings: SightingsConfig = SightingsConfig()
    closures: ClosuresConfig = ClosuresConfig()
    fixes: FixesConfig = FixesConfig()
    heights: HeightsConfig = HeightsConfig()
    attitudes: AttitudesConfig = AttitudesConfig()
    solver: SolverConfig = LIVE_SOLVER
    backend: BackendConfig = BackendConfig()
    calibration: CalibrationConfig = CalibrationConfig()
    node: NodeConfig = NodeConfig()

    def __post_init__(self) -> None:
        robots = list(self.robots)
        refuse(not robots or not all(robots) or len(set(robots)) < len(robots),
               f'robots: expected distinct, non-empty names, got {robots}')
        for name, template in (
            ('odometry.topic', self.odometry.topic), ('fixes.topic', self.fixes.topic),
            ('attitudes.topic', self.attitudes.topic), ('frames.odom', self.frames.odom),
            ('frames.base', self.frames.base),
        ):
            refuse(template and len(robots) > 1 and '{robot}' not in template,
                   f'{name}: {template!r} must contain {{robot}} with several robots')
        for name in ('map', 'odom', 'base'):
            frame = getattr(self.frames, name)
            refuse(frame.startswith('/'),
                   f'frames.{name}: {frame!r} must not begin with /: no frame of tf2 does')
        for name, used in (('heights.inputs', self.heights.inputs),
                           ('attitudes.topic', self.attitudes.topic)):
            refuse(used and self.dimension == 2,
                   f'{name}: not used in the plane; remove it, or set dimension: 3')
        for name in ('odometry', 'sightings', 'fixes', 'heights', 'attitudes'):
            for robot in getattr(self, name).time_offsets:
                refuse(robot not in (*robots, '*'),
                       f'{name}.time_offsets.{robot}: no such robot; "*" stands for all others')
        for name, robot in (('backend.gauge_robot', self.backend.gauge_robot),
                            ('fixes.initial_pose_robot', self.fixes.initial_pose_robot)):
            refuse(robot and robot not in robots, f'{name}: {robot!r} is not in robots {robots}')
        for name, group in (('ranges', self.ranges), ('sightings', self.sightings)):
            refuse(group.min_m >= group.max_m,
                   f'{name}.min_m: {group.min_m} must be below {name}.max_m')
        self._check_datum()
        if self.backend.gauge_initial_pose:
            check_vector(self.backend.gauge_initial_pose, (3 if self.dimension == 2 else 6,),
                         'backend.gauge_initial_pose')
        for name, vectors, sizes in (
            ('fixes.lever_arms', self.fixes.lever_arms, (2, 3)),
            ('odometry.sensor_poses', self.odometry.sensor_poses, (3, 6)),
            ('attitudes.mounts', self.attitudes.mounts, (3,)),
        ):
            for robot, values in vectors.items():
                refuse(robot not in robots, f'{name}.{robot}: no such robot')
                check_vector(values, sizes, f'{name}.{robot}')
                if name != 'fixes.lever_arms':
                    # A mount is three angles, a pose x y yaw or x y z roll pitch yaw.
                    mount = name == 'attitudes.mounts'
                    check_angles(values if mount else values[3:] or values[2:], f'{name}.{robot}')
        self._check_named()

    def _check_datum(self) -> None:
        check_vector(self.fixes.datum, (3,), 'fixes.datum')
        if self.fixes.datum:
            latitude, longitude, _ = self.fixes.datum
            refuse(abs(latitude) > 90 or abs(longitude) > 360,
                   f'fixes.datum: expected latitude, longitude (degrees) and height, got '
                   f'{self.fixes.datum}')
        check_angles([self.fixes.datum_heading_rad], 'fixes.datum_heading_rad')
        refuse(self.fixes.topic and 'NavSatFix' in self.fixes.type and not self.fixes.datum,
               'fixes.datum: NavSatFix needs latitude, longitude and height of the map origin')

    def _check_named(self) -> None:
        places: dict[str, tuple[str, list[float]]] = {}
        for name, spec in self.radio_specs().items():
            spec.check(f'radios.{name}', self.robots, self.dimension)
            if spec.beacon and spec.position:
                other, place = places.setdefault(spec.beacon, (name, spec.position))
                refuse(place != spec.position,
                       f'radios.{name}.position: beacon {spec.beacon} has another one by '
                       f'radios.{other}: a beacon with two radios has one position')
        for group in ('ranges.inputs', 'sightings.inputs', 'closures.inputs', 'heights.inputs'):
            for name, source in self._named[group].items():
                source.check(f'{group}.{name}', self.robots)
        for frame, values in self.sightings.sensor_poses.items():
            check_vector(values, (3, 6), f'sightings.sensor_poses.{frame}')
            check_angles(values[3:] or values[2:], f'sightings.sensor_poses.{frame}')
        for robot, vertical in self.odometry.vertical_of.items():
            refuse(robot not in self.robots or vertical not in ('gravity', 'free'),
                   f'odometry.vertical_of.{robot}: expected gravity or free, for a robot of '
                   f'{list(self.robots)}; got {vertical!r}')

    @cached_property
    def _named(self) -> dict[str, Any]:
        """Built once: every tick asks for the radios."""
        return {name: named(kind, entries, name) for name, kind, entries in (
            ('radios', RadioSpec, self.radios),
            ('ranges.inputs', RangeInput, self.ranges.inputs),
            ('sightings.inputs', SightingInput, self.sightings.inputs),
            ('closures.inputs', ClosureInput, self.closures.inputs),
            ('heights.inputs', HeightInput, self.heights.inputs))}

    def radio_specs(self) -> dict[str, RadioSpec]:
        return self._named['radios']

    def range_inputs(self) -> dict[str, RangeInput]:
        return self._named['ranges.inputs']

    def sighting_inputs(self) -> dict[str, SightingInput]:
        return self._named['sightings.inputs']

    def closure_inputs(self) -> dict[str, ClosureInput]:
        return self._named['closures.inputs']

    def height_inputs(self) -> dict[str, HeightInput]:
        return self._named['heights.inputs']

    def with_radios_of(self, other: SparserConfig) -> SparserConfig:
        """The same with the radios of another one of the same robots, which are checked already:
        a map of thousands of beacons would hold up the callbacks of a node."""
        result = copy.copy(self)
        object.__setattr__(result, 'radios', other.radios)
        result.__dict__['_named'] = {**self._named, 'radios': other.radio_specs()}
        return result

    def within(self, session: SparserConfig) -> SparserConfig:
        """The same with the radios and frames of a session that goes on, for its front-end knows no
        others."""
        result = self.with_radios_of(session)
        object.__setattr__(result, 'frames', session.frames)
        return result

    def claims_gravity(self, robot: str) -> bool:
        """Whether the odometry of a robot says where up is."""
        return self.dimension == 3 and self.odometry.vertical_of.get(
            robot, self.odometry.vertical) == 'gravity'

    def topic(self, template: str, robot: str) -> str:
        """A topic or frame name of one robot."""
        return template.replace('{robot}', robot)

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> SparserConfig:
        """From nested or dotted names (`ranges.max_m`, `radios.17.robot`), as ROS has them."""
        groups = nested({k: v for k, v in values.items()
                         if not any(k == o or k.startswith(o + '.') for o in ROS_OWN)})
        return build(cls, groups)

    @classmethod
    def from_yaml(cls, path: str | Path, **overrides: Any) -> SparserConfig:
        """From a file in the ROS form (`/**: ros__parameters:`) or plain; errors name the file."""
        values = load_yaml(path)
        try:
            return cls.from_mapping(merged(nested(values), nested(overrides)))
        except ConfigError as error:
            raise ConfigError(f'{path}: {error}') from None


def load_yaml(path: str | Path) -> dict[str, Any]:
    """The parameters in a YAML file, in the ROS form or plain.

    Of a file in the ROS form these are the blocks of a node `sparser`, in any namespace, and of
    wildcards, in the order of the file; those of other nodes are not looked at.
    """
    file = YamlFile(path)
    blocks = file.blocks()
    values = {} if blocks else file.value
    if not blocks:
        if values is not None and not isinstance(values, dict):
            raise ConfigError(f'{path}: expected a mapping of parameters, got {values!r:.40}')
        return values or {}
    ours = [block for block in blocks if block.is_for('')]
    nodes = {block.name for block in ours if '*' not in block.name}
    if not ours:
        raise ConfigError(
            f'{path}: nothing in it is for the node {NODE}: it names '
            f'{", ".join(block.name for block in blocks)}; call the block of its parameters '
            f'/** or {NODE}')
    if len(nodes) > 1:
        raise ConfigError(
            f'{path}: it holds parameters of several nodes, {", ".join(sorted(nodes))}: give a '
            'file with those of one')
    outside = sorted({key.split('.')[0] for key in file.names()} & {
        option.name.split('.')[0] for option in walk(SparserConfig)})
    if outside:
        raise ConfigError(
            f'{path}: {", ".join(outside)} must stand below `ros__parameters:` like the rest')
    for block in ours:
        values = merged(values, block.values)
    return values
