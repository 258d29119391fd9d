"""Message types of bags: the standard ones and ours, without a ROS installation.

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
SOLVER_STATUS = 'sparser_ros/msg/SolverStatus'
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
    SOLVER_STATUS: """
uint8 STATE_WAITING=0
uint8 STATE_RUNNING=1
uint8 STATE_PAUSED=2
uint8 STATE_DEGRADED=3
uint8 STATE_ERROR=4
std_msgs/Header header
uint8 state
uint32 robots
uint32 robots_located
string[] robot_names
string[] robot_states
string[] robot_missing
uint8 FIX_NONE=0
uint8 FIX_FLOAT=1
uint8 FIX_FIXED=2
uint8[] robot_fix
float64[] robot_sigma_m
float64[] robot_sigma_rad
float64[] robot_correction_m
float64[] robot_protection_m
float64[] robot_protection_z_m
uint32 keyframes
uint32 beacons
uint32 ranges
uint32 closures
uint32 sightings
uint32 rejected
uint32 waiting
uint64 received
uint64 dropped
string[] lost_topics
uint64[] lost_counts
float64 cost
float64 cost_relaxed
uint32 iterations
float64 solve_seconds
float64 latency
float64 solution_age_s
float64 data_age_s
uint32 map_epoch
bool full_solve
bool solving
bool certified
float64 suboptimality
float64 lower_bound
float64 bound_age_s
string optimality
float64 alert_limit_m
float64 integrity_risk
string covariance_gauge
float64 variance_factor
string[] noise_sources
float64[] noise_factors
uint32 worker_restarts
uint32 callback_errors
string[] findings
string[] rulings
string text
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
