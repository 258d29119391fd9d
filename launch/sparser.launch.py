"""Starts the node; optionally RViz, and a bag played with its clock.

    ros2 launch sparser_ros sparser.launch.py params_file:=my.yaml
    ros2 launch sparser_ros sparser.launch.py params_file:=my.yaml bag:=my_bag rviz:=true
"""

from launch.actions import DeclareLaunchArgument, ExecuteProcess, GroupAction
from launch.conditions import IfCondition
from launch.substitutions import (
    LaunchConfiguration,
    PathJoinSubstitution,
    PythonExpression,
)
from launch_ros.actions import Node, PushRosNamespace, SetParameter, SetRemap
from launch_ros.substitutions import FindPackageShare

from launch import LaunchDescription

ARGUMENTS = (
    ('params_file', None, 'YAML file with the parameters of the node'),
    ('namespace', '', 'namespace of the node; its topics and services move along'),
    ('use_sim_time', None, 'take time from /clock; true where a bag is given'),
    ('namespaced_tf', 'false', 'publish on tf within the namespace instead of /tf'),
    ('log_level', 'info', 'debug, info, warn, error or fatal'),
    ('respawn', 'false', 'start the node again should it end'),
    ('rviz', 'false', 'start RViz with the display of this package'),
    ('rviz_config', None, 'display file for RViz'),
    ('bag', '', 'bag to play with its clock; empty = none'),
    ('bag_rate', '1.0', 'speed of the bag, times real time'),
)


def generate_launch_description() -> LaunchDescription:
    """Node, RViz and bag player, each as its arguments say."""
    share = FindPackageShare('sparser_ros')
    bag = LaunchConfiguration('bag')
    has_bag = PythonExpression(["'", bag, "' != ''"])
    defaults = {
        'params_file': PathJoinSubstitution([share, 'config', 'sparser.yaml']),
        'rviz_config': PathJoinSubstitution([share, 'config', 'sparser.rviz']),
        'use_sim_time': PythonExpression(["'true' if '", bag, "' else 'false'"]),
    }
    # `bag` comes first: the default of use_sim_time looks at it.
    ordered = sorted(ARGUMENTS, key=lambda argument: argument[0] != 'bag')
    declared = [
        DeclareLaunchArgument(
            name, default_value=defaults.get(name, default), description=description)
        for name, default, description in ordered
    ]
    node = Node(
        package='sparser_ros',
        executable='sparser_node',
        name='sparser',
        parameters=[LaunchConfiguration('params_file')],
        arguments=['--ros-args', '--log-level', LaunchConfiguration('log_level')],
        respawn=LaunchConfiguration('respawn'),
        respawn_delay=2.0,
        output='screen',
        emulate_tty=True,
    )
    rviz = Node(
        package='rviz2',
        executable='rviz2',
        name='rviz',
        arguments=['-d', LaunchConfiguration('rviz_config')],
        condition=IfCondition(LaunchConfiguration('rviz')),
        output='log',
    )
    player = ExecuteProcess(
        cmd=[
            'ros2', 'bag', 'play', bag, '--clock', '100', '--rate',
            LaunchConfiguration('bag_rate'), '--delay', '3',
        ],
        condition=IfCondition(has_bag),
        output='screen',
    )
    namespaced_tf = IfCondition(LaunchConfiguration('namespaced_tf'))
    return LaunchDescription([
        *declared,
        GroupAction([
            PushRosNamespace(LaunchConfiguration('namespace')),
            SetParameter('use_sim_time', LaunchConfiguration('use_sim_time')),
            SetRemap('/tf', 'tf', condition=namespaced_tf),
            SetRemap('/tf_static', 'tf_static', condition=namespaced_tf),
            node,
            rviz,
        ]),
        player,
    ])
