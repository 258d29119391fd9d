"""Writes config/sparser.yaml from the dataclasses: `./dev/run python dev/reference.py`."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import yaml

from sparser_ros.config import OptionInfo, SparserConfig

PAGE = Path(__file__).resolve().parent.parent / 'config' / 'sparser.yaml'

HEADER = """\
# All parameters of sparser_ros with their defaults.
#
# Copy this file, keep the lines you change, and give it to the node (params_file:=my.yaml), or to
# `sparser replay --config my.yaml`. Unknown names and values out of bounds are errors that say
# what was meant. Lines marked "live" can be changed while the node runs.
#
# Units are SI; "{robot}" stands for the name of each robot.
"""
EXAMPLES = {
    'radios': """\
      "17": {robot: robot, lever_arm: [0.1, 0.0, 0.3]}   # radio 17 sits on robot, antenna there
      L14: {beacon: L14, position: [4.0, 2.5, 1.8]}      # known position: fixes the map frame
      L15: {beacon: L15, position: [9.0, 2.5, 1.8], sigma_m: 0.1}   # known within 10 cm
      L16: {beacon: L16, height_m: 2.0}                  # unknown position, known height (2D)""",
    'stamps.by_arrival': '[robot]',
    'odometry.time_offsets': """\
        robot: 0.05                           # its stamps are 50 ms early""",
    'ranges.time_offsets': """\
        "17": -0.02""",
    'sightings.sensor_poses': """\
        camera_optical: [0.3, 0.0, 0.5, -1.5708, 0.0, -1.5708]   # looking ahead""",
    'closures.time_offsets': """\
        kimera: 0.0""",
    'time_offsets': """\
        robot: 0.0""",
    'odometry.vertical_of': """\
        robot: free                           # its roll and pitch drift""",
    'heights.inputs': """\
        laser:                                # looks down
          topic: /{robot}/laser
          type: sensor_msgs/msg/Range
          measures: ground
        autopilot:
          topic: /{robot}/mavros/global_position/rel_alt
          type: std_msgs/msg/Float64
        barometer:
          topic: /{robot}/pressure
          type: sensor_msgs/msg/FluidPressure
          measures: pressure
          sigma_m_per_sqrt_s: 0.05""",
    'attitudes.mounts': """\
        robot: [0.0, 0.0, 1.5708]             # turned to the left""",
    'odometry.sensor_poses': """\
        robot: [0.3, 0.0, 0.5, 0.0, 0.0, 0.0]   # a camera ahead of the base""",
    'fixes.lever_arms': """\
        robot: [0.0, 0.0, 0.5]""",
    'fixes.datum': '[52.0, 4.4, 10.0]',
    'calibration.radio_bias_sigma_m': """\
        L14: 0.0                              # calibrated: its bias is known""",
    'calibration.radio_types': """\
        L14: dwm1001""",
    'backend.gauge_initial_pose': '[0.0, 0.0, 0.0]',
    'backend.truth_topics': """\
        robot: /mocap/robot/pose""",
    'solver.target_cost': '100.0',
}
"""What an option without default could look like, by its name or the last part of that; ROS files
know neither null nor empty lists."""
MORE_INPUTS = """\
        # tags:                               # both radios in the topic name
        #   topic: '/uwb/tof/(?P<source>\\w+)/(?P<target>\\w+)/distance'
        #   adapter: pair_topic
        #   type: sensor_msgs/msg/Range
        # anchors:                            # any message, by field paths
        #   topic: /{robot}/ranges
        #   adapter: fields
        #   type: my_msgs/msg/Ranges
        #   scale: 0.001                      # millimetres
        #   fields: {list: ranges, target: id, range: distance, sigma: std, stamp: header.stamp}
        # linktrack:
        #   topic: /{robot}/nlink_linktrack_nodeframe3
        #   adapter: linktrack"""
MORE_SIGHTINGS = """\
        # tags:                               # one topic for each tag
        #   topic: '/{robot}/tags/tag_(?P<landmark>\\d+)/pose'
        #   adapter: pose_topic
        #   type: geometry_msgs/msg/PoseWithCovarianceStamped"""
MORE_CLOSURES = """\
        # swarm:
        #   topic: /cslam/inter_robot_loop_closure
        #   adapter: swarm_slam
        #   keyframe_topic: /{robot}/cslam/keyframe_odom
        #   robots: {"0": robot}"""
APPENDIX = {
    'ranges.inputs': MORE_INPUTS, 'sightings.inputs': MORE_SIGHTINGS,
    'closures.inputs': MORE_CLOSURES}


def page() -> str:
    lines = ['/**:', '  ros__parameters:', *section(SparserConfig(), '', 4)]
    return HEADER + '\n'.join(lines) + '\n'


def section(group: Any, prefix: str, indent: int) -> Iterator[str]:
    """Lines of a group of options and of the groups in it."""
    pad = ' ' * indent
    for item in fields(group):
        name, default = prefix + item.name, getattr(group, item.name)
        if is_dataclass(default):
            yield ''
            summary = ' '.join((default.__doc__ or '').split('\n\n')[0].split())
            yield from comment(summary, pad)
            yield f'{pad}{item.name}:'
            yield from section(default, name + '.', indent + 2)
            continue
        info: OptionInfo = item.metadata['option']
        yield from comment(describe(info), pad)
        if default is None or default in ([], {}):
            yield from example(name, item.name, pad)
        elif isinstance(default, dict):
            yield f'{pad}{item.name}:'
            text = yaml.safe_dump(default, sort_keys=False, default_flow_style=False, width=200)
            yield from textwrap.indent(text, pad + '  ').splitlines()
            if name in APPENDIX:
                yield APPENDIX[name]
        else:
            yield f'{pad}{item.name}: {spell(default)}'


def describe(info: OptionInfo) -> str:
    """Description with unit, choices or bounds, and whether it may change while the node runs."""
    notes = []
    if info.unit:
        notes.append(info.unit)
    if info.choices:
        notes.append(' | '.join(map(str, info.choices)))
    elif info.lower is not None or info.upper is not None:
        lower = '' if info.lower is None else f'{info.lower:g}'
        upper = '' if info.upper is None else f'{info.upper:g}'
        notes.append(f'{lower} .. {upper}'.strip())
    if info.live:
        notes.append('live')
    return f'{info.doc} [{"; ".join(notes)}]' if notes else info.doc


def comment(text: str, pad: str) -> Iterator[str]:
    yield from textwrap.wrap(text, 100, initial_indent=f'{pad}# ', subsequent_indent=f'{pad}# ')


def example(name: str, leaf: str, pad: str) -> Iterator[str]:
    """An option without default, as a comment."""
    text = EXAMPLES.get(name) or EXAMPLES[leaf]
    if '\n' not in text and not text.startswith(' '):
        yield f'{pad}# {leaf}: {text}'
        return
    yield f'{pad}# {leaf}:'
    for line in textwrap.dedent(text).splitlines():
        yield f'{pad}#   {line}'


def spell(value: Any) -> str:
    if isinstance(value, str):
        return value if value.isidentifier() and value not in ('none', 'null') else repr(value)
    return yaml.safe_dump(value, default_flow_style=True, width=200).splitlines()[0]


if __name__ == '__main__':
    PAGE.write_text(page(), encoding='utf-8')
