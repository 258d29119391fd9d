"""Starts the node, and optionally RViz and a bag with its clock.

    ros2 launch sparser_ros sparser.launch.py params_file:=my.yaml
    ros2 launch sparser_ros sparser.launch.py params_file:=my.yaml bag:=my_bag rviz:=true
"""

import os
import re
from pathlib import Path

from ament_index_python.packages import PackageNotFoundError, get_package_prefix
from launch.actions import DeclareLaunchArgument, ExecuteProcess, OpaqueFunction, Shutdown
from launch.events.process import ProcessExited
from launch.substitutions import LaunchConfiguration, PathJoinSubstitution
from launch_ros.actions import Node
from launch_ros.substitutions import ExecutableInPackage, FindPackageShare

from launch import LaunchContext, LaunchDescription

LISTEN_TIMEOUT_S = '60'
"""Longest wait of the player for the node's subscriptions: the node imports and compiles first."""


def generate_launch_description() -> LaunchDescription:
    """Declare the arguments; node, RViz and bag player start when they have values."""
    config = PathJoinSubstitution([FindPackageShare('sparser_ros'), 'config'])
    arguments = (
        ('params_file', PathJoinSubstitution([config, 'sparser.yaml']),
         'YAML file with the parameters of the node'),
        ('namespace', '',
         'namespace of the node, its outputs, its services and relative input topics'),
        ('use_sim_time', '',
         'true: take time from /clock; empty: true with a bag, else as in params_file'),
        ('namespaced_tf', 'false', 'publish on tf in the namespace instead of /tf'),
        ('log_level', 'info', 'debug, info, warn, error or fatal'),
        ('map_file', '', 'map to start in: a folder that ~/save has written'),
        ('journal', 'auto',
         'folder that keeps what is needed to go on after a crash; auto: sparser in $ROS_HOME '
         '(~/.ros), none with a bag; none; empty: as in params_file'),
        ('resume', '',
         'true: go on with the newest session in the journal; empty: as in params_file'),
        ('lifecycle', 'false',
         'true: wait for a lifecycle manager, such as that of Nav2, to configure and activate'),
        ('respawn', 'false', 'start the node again when it ends'),
        ('rviz', 'false', 'start RViz with rviz_config: true, false, or auto (if installed)'),
        ('rviz_config', PathJoinSubstitution([config, 'sparser.rviz']), 'display file for RViz'),
        ('bag', '', 'bag to play, with its clock, once the node has subscribed; empty = none'),
        ('bag_rate', '1.0', 'speed of the bag, multiple of real time'),
    )
    names = [name for name, _, _ in arguments]
    return LaunchDescription([
        *(DeclareLaunchArgument(name, default_value=default, description=description)
          for name, default, description in arguments),
        OpaqueFunction(function=_start, args=[names]),
    ])


def _start(context: LaunchContext, names: list[str]) -> list[Node | ExecuteProcess]:
    """The processes to start, from the values of the arguments."""
    given = {name: LaunchConfiguration(name).perform(context) for name in names}
    # rclpy does not complain about a missing params_file: the node would run with its defaults.
    for name in ('params_file', 'rviz_config'):
        if not Path(given[name]).is_file():
            raise RuntimeError(f'{name}: no such file: "{given[name]}"')
    if given['bag'] and not Path(given['bag']).exists():
        raise RuntimeError(f'bag: no such file or folder: "{given["bag"]}"')
    sim_time = given['use_sim_time'] or ('true' if given['bag'] else '')
    kept = _kept(given)
    time = [{'use_sim_time': _is_true('use_sim_time', sim_time)}] if sim_time else []
    tf = []
    if _is_true('namespaced_tf', given['namespaced_tf']):
        tf = [('/tf', 'tf'), ('/tf_static', 'tf_static')]
    respawn = _is_true('respawn', given['respawn'])
    lifecycle = _is_true('lifecycle', given['lifecycle'])
    started: list[Node | ExecuteProcess] = [Node(
        package='sparser_ros',
        executable='sparser_lifecycle_node' if lifecycle else 'sparser_node',
        name='sparser',
        namespace=given['namespace'],
        parameters=[given['params_file'], *kept, *time],
        remappings=tf,
        arguments=['--ros-args', '--log-level', given['log_level']],
        respawn=respawn,
        respawn_delay=2.0,
        # Otherwise the player would wait for a node that refused its parameters.
        on_exit=Shutdown(reason='the node ended') if given['bag'] and not respawn else None,
        output='screen',
        emulate_tty=True,
    )]
    if _wants_rviz(given['rviz']):
        started.append(Node(
            package='rviz2',
            executable='rviz2',
            name='rviz',
            namespace=given['namespace'],
            parameters=time,
            remappings=[*tf, *_followed(given['rviz_config'])],
            arguments=['-d', given['rviz_config']],
            output='log',
        ))
    if given['bag']:
        # `ros2 bag play` starts at once: messages before the node's subscriptions would be lost.
        started.append(ExecuteProcess(
            cmd=[ExecutableInPackage('sparser', 'sparser_ros'), 'play', given['bag'],
                 '--rate', given['bag_rate'], '--wait', LISTEN_TIMEOUT_S,
                 '--node', f'/{given["namespace"].strip("/")}/sparser'.replace('//', '/')],
            output='screen',
            on_exit=_played,
        ))
    return started


def _played(event: ProcessExited, _context: LaunchContext) -> Shutdown | None:
    """The end of a bag ends nothing; without a player the node would wait for `/clock` for good."""
    if not event.returncode:
        return None
    return Shutdown(reason=f'the player of the bag ended with exit code {event.returncode}')


def _kept(given: dict[str, str]) -> list[dict[str, str | bool]]:
    """Parameters of the journal and of the map to start in."""
    folder = given['journal']
    if folder == 'auto':
        home = Path(os.environ.get('ROS_HOME', '~/.ros')).expanduser()
        folder = 'none' if given['bag'] else str(home / 'sparser')
    parameters: dict[str, str | bool] = {}
    if given['resume']:
        parameters['node.journal.resume'] = _is_true('resume', given['resume'])
    if folder:
        parameters['node.journal.directory'] = '' if folder == 'none' else folder
    if given['map_file']:
        parameters['node.map_file'] = given['map_file']
    return [parameters]


def _followed(display: str) -> list[tuple[str, str]]:
    """Remappings of the display file's topics into the namespace of the node."""
    topics = set(re.findall(
        r'\bValue: (/sparser/\S+|/initialpose)', Path(display).read_text()))
    return [(topic, topic.removeprefix('/')) for topic in sorted(topics)]


def _is_true(name: str, value: str) -> bool:
    if value.lower() not in ('true', 'false', '1', '0'):
        raise RuntimeError(f'{name}: true or false, not "{value}"')
    return value.lower() in ('true', '1')


def _wants_rviz(value: str) -> bool:
    if value != 'auto' and not _is_true('rviz', value):
        return False
    try:
        get_package_prefix('rviz2')
    except PackageNotFoundError:
        if value == 'auto':
            return False
        raise RuntimeError('rviz:=true, but the package rviz2 is not installed') from None
    return True
