"""Message types of bags: the standard ones and those of our inputs, without a ROS installation.

The definitions repeat `msg/*.msg` without comments (a test compares them), so that they are
found the same way from a checkout, a colcon install and `pip install`.
"""

from __future__ import annotations

from typing import Any

from rosbags.typesys import Stores, get_types_from_msg, get_typestore
from rosbags.typesys.store import Typestore

UWB_RANGE = 'sparser_ros/msg/UwbRange'
LANDMARK_SIGHTING = 'sparser_ros/msg/LandmarkSighting'
LOOP_CLOSURE = 'sparser_ros/msg/LoopClosure'
ODOMETRY = 'nav_msgs/msg/Odometry'
POSE_FIX = 'geometry_msgs/msg/PoseWithCovarianceStamped'
POINT = 'geometry_msgs/msg/PointStamped'
IMU = 'sensor_msgs/msg/Imu'

DEFINITIONS = {
    UWB_RANGE: """
uint8 LOS_UNKNOWN=0
uint8 LOS_CLEAR=1
uint8 LOS_BLOCKED=2
std_msgs/Header header
string source
string target
float64 range
float64 variance
float32 first_path_rssi
float32 rx_rssi
uint8 los
""",
    LOOP_CLOSURE: """
std_msgs/Header header
string from_robot
builtin_interfaces/Time from_stamp
string to_robot
builtin_interfaces/Time to_stamp
geometry_msgs/PoseWithCovariance relative_pose
float32 confidence
string detector
""",
    LANDMARK_SIGHTING: """
std_msgs/Header header
string robot
string landmark
geometry_msgs/Point position
float64[9] covariance
""",
}


def typestore(store: Stores = Stores.ROS2_HUMBLE) -> Typestore:
    """A fresh store of the standard types of a distribution, and ours."""
    types = get_typestore(store)
    definitions: dict[str, Any] = {}
    for name, text in DEFINITIONS.items():
        definitions.update(get_types_from_msg(text, name))
    types.register(definitions)
    return types
