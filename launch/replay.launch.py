"""Plays a bag into the node, with RViz: `ros2 launch sparser_ros replay.launch.py bag:=my_bag`.

`mode:=offline` reads the bag at full speed and without topics, through the same front-end and
back-end (`sparser replay`).
"""

from launch.actions import DeclareLaunchArgument, ExecuteProcess, IncludeLaunchDescription
from launch.conditions import IfCondition
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch.substitutions import (
    LaunchConfiguration,
    PathJoinSubstitution,
    PythonExpression,
)
from launch_ros.substitutions import ExecutableInPackage, FindPackageShare

from launch import LaunchDescription


def generate_launch_description() -> LaunchDescription:
    """The node with a bag and RViz, or the same pipeline without ROS."""
    share = FindPackageShare('sparser_ros')
    mode = LaunchConfiguration('mode')
    online = IfCondition(PythonExpression(["'", mode, "' == 'online'"]))
    offline = IfCondition(PythonExpression(["'", mode, "' == 'offline'"]))
    passed = ('bag', 'params_file', 'namespace', 'bag_rate', 'rviz', 'log_level')
    return LaunchDescription([
        DeclareLaunchArgument('bag', description='bag to replay (sqlite3 or mcap)'),
        DeclareLaunchArgument(
            'params_file', default_value=PathJoinSubstitution([share, 'config', 'sparser.yaml']),
            description='YAML file with the parameters of the node'),
        DeclareLaunchArgument('namespace', default_value='', description='namespace of the node'),
        DeclareLaunchArgument('bag_rate', default_value='1.0', description='multiple of real time'),
        DeclareLaunchArgument('rviz', default_value='auto',
                              description='start RViz: true, false, or auto (if installed)'),
        DeclareLaunchArgument('log_level', default_value='info', description='log level'),
        DeclareLaunchArgument(
            'mode', default_value='online', choices=['online', 'offline'],
            description='online: through topics, at bag_rate; offline: full speed, no topics'),
        DeclareLaunchArgument(
            'report', default_value='sparser_report.json',
            description='offline: JSON report to write'),
        IncludeLaunchDescription(
            PythonLaunchDescriptionSource(
                PathJoinSubstitution([share, 'launch', 'sparser.launch.py'])),
            launch_arguments={
                **{name: LaunchConfiguration(name) for name in passed}, 'use_sim_time': 'true',
            }.items(),
            condition=online,
        ),
        ExecuteProcess(
            cmd=[ExecutableInPackage('sparser', 'sparser_ros'), 'replay',
                 LaunchConfiguration('bag'), '--config', LaunchConfiguration('params_file'),
                 '--report', LaunchConfiguration('report')],
            condition=offline, output='screen',
        ),
    ])
