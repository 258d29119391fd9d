"""Options of the front-end: topics, frames, keyframes, and what each sensor is trusted with."""

from __future__ import annotations

from dataclasses import dataclass

from .option import option


@dataclass(frozen=True)
class FramesConfig:
    """Frame names (REP-105); `{robot}` stands for the robot's name."""

    map: str = option('map', 'global frame')
    odom: str = option('{robot}/odom', 'odometry frame of a robot')
    base: str = option('{robot}/base_link', 'body frame of a robot')
    static_topic: str = option(
        '/tf_static', 'tf2_msgs/TFMessage that say where sensors and antennas sit on their robots; '
        'parameters that say so themselves come first; empty = not used')


@dataclass(frozen=True)
class StampsConfig:
    """How stamps of different sources and topics are brought together."""

    reorder_window_s: float = option(
        0.2, 'data wait this long (data time) so that topics may arrive in any order', unit='s',
        lower=0.0, upper=60.0)
    timeout_s: float = option(
        10.0, 'a range, closure or fix waits at most this long (data time) for odometry that '
        'covers its stamp', unit='s', lower=0.0, upper=600.0)
    by_arrival: list[str] = option(
        [], 'robots and radios whose stamps are not believed: their messages count as of their '
        'arrival, less the lag of the other sources; "*" = all')


@dataclass(frozen=True)
class OdometryConfig:
    """Odometry input and the noise that is assumed where messages do not say."""

    topic: str = option('/{robot}/odom', 'nav_msgs/Odometry topic of each robot')
    sensor_poses: dict[str, list[float]] = option(
        {}, 'pose in the base frame of the sensor that the odometry tracks, where that is not '
        'the base: x y z, or x y z roll pitch yaw, by robot name; without it /tf_static '
        'says where child_frame_id sits', unit='m, rad')
    time_offsets: dict[str, float] = option(
        {}, 'seconds added to the stamps, by robot name ("*" = all others)', unit='s')
    sigma_m_per_sqrt_m: float = option(
        0.02, 'translation noise after one metre of travel (grows with the square root)',
        unit='m/sqrt(m)', lower=0.0, upper=100.0)
    sigma_m_per_sqrt_rad: float = option(
        0.01, 'translation noise after one radian of turning', unit='m/sqrt(rad)', lower=0.0,
        upper=100.0)
    sigma_m_per_sqrt_s: float = option(
        0.002, 'translation noise after one second', unit='m/sqrt(s)', lower=1e-9, upper=100.0)
    sigma_rad_per_sqrt_m: float = option(
        0.01, 'heading noise after one metre of travel', unit='rad/sqrt(m)', lower=0.0,
        upper=10.0)
    sigma_rad_per_sqrt_rad: float = option(
        0.02, 'heading noise after one radian of turning', unit='rad/sqrt(rad)', lower=0.0,
        upper=10.0)
    sigma_rad_per_sqrt_s: float = option(
        0.001, 'heading noise after one second', unit='rad/sqrt(s)', lower=1e-9, upper=10.0)
    min_sigma_m: float = option(
        1e-4, 'least translation noise believed between two keyframes', unit='m', lower=1e-9,
        upper=10.0)
    min_sigma_rad: float = option(
        1e-5, 'least rotation noise believed between two keyframes', unit='rad', lower=1e-9,
        upper=10.0)
    vertical: str = option(
        'gravity',
        'roll and pitch in the odometry (3D): measured against gravity, as visual-inertial, '
        'lidar-inertial and autopilot odometry have them, or free, relative to where it '
        'began', choices=('gravity', 'free'))
    vertical_of: dict[str, str] = option(
        {}, 'the same by robot name, where robots differ: gravity or free')
    tilt_sigma_rad: float = option(
        0.00873, 'vertical: gravity: standard deviation of roll and pitch (0.5 degrees)',
        unit='rad', lower=1e-5, upper=1.0)
    tilt_correlation_s: float = option(
        20.0, 'roll and pitch within this time share their error: together they count as one '
        'measurement', unit='s', lower=0.0, upper=1e5)
    height: str = option(
        'free', 'vertical: gravity: whether z of the odometry is a height that does not drift, '
        'above a take-off at the same level for all robots', choices=('free', 'trusted'))
    height_sigma_m: float = option(
        0.1, 'height: trusted: its standard deviation', unit='m', lower=1e-3, upper=1e3)
    height_correlation_s: float = option(
        10.0, 'such heights within this time share their error', unit='s', lower=0.0, upper=1e5)
    history_s: float = option(
        120.0, 'raw odometry is kept this long; older stamps are interpolated between keyframes',
        unit='s', lower=1.0, upper=1e5)
    max_extrapolation_s: float = option(
        0.25, 'odometry is extended at most this far beyond its ends', unit='s', lower=0.0,
        upper=60.0)
    max_speed_m_per_s: float = option(
        30.0, 'no robot moves faster: ground robots stay below 10, most drones below 30; nor does '
        'one speed up by more than 20 m/s^2; .inf = no limit', unit='m/s', lower=1e-3)
    max_turn_rate_rad_per_s: float = option(
        20.0, 'nor turns faster: racing drones reach 20; .inf = no limit', unit='rad/s',
        lower=1e-3)
    gap_s: float = option(
        5.0, 'after a silence longer than this, and than ten usual periods, the motion is as '
        'uncertain as if the robot had driven on at its usual speed', unit='s', lower=0.1,
        upper=1e6)


@dataclass(frozen=True)
class KeyframesConfig:
    """Which odometry messages become poses of the graph."""

    every_message: bool = option(False, 'every odometry message is a keyframe')
    distance_m: float = option(
        0.5, 'a keyframe after this much travel; 0 = every message, .inf = not by distance',
        unit='m', lower=0.0)
    angle_rad: float = option(
        0.35, 'a keyframe after this much turning; 0 = every message, .inf = not by angle',
        unit='rad', lower=0.0)
    time_s: float = option(
        5.0, 'a keyframe after this time; 0 = every message, .inf = not by time', unit='s',
        lower=0.0)
    max_count: int = option(
        20_000,
        'most keyframes of all robots together, and 25 times as many measurements; beyond it the '
        'oldest are thinned to three quarters of it, the older the more (docs/method.md, section '
        '11); 0 = never, and the graph grows without end', lower=0, upper=10_000_000)
    thinned_per_pair: int = option(
        1, 'a keyframe keeps so many measurements per beacon or robot of those that move to it '
        'when others are thinned; 0 = all, and measurements grow without end', lower=0, upper=1000)


@dataclass(frozen=True)
class RangesConfig:
    """UWB ranges: sources, gates and noise."""

    inputs: dict[str, dict] = option(
        {'uwb': {'topic': '/uwb/ranges', 'adapter': 'uwb_range'}},
        'sources by name: topic, adapter, type, scale, radio_format, source_format, target_format, '
        'source, targets, fields; naming any replaces the default')
    unknown_radios: str = option(
        'beacon', 'a radio that `radios` does not name is an unknown beacon, or is ignored',
        choices=('beacon', 'ignore'))
    min_m: float = option(0.05, 'shorter ranges are refused', unit='m', lower=0.0, upper=1e5)
    max_m: float = option(300.0, 'longer ranges are refused', unit='m', lower=0.0, upper=1e6)
    scale: float = option(1.0, 'ranges are multiplied by this', lower=1e-6, upper=1e6)
    bias_m: float = option(0.0, 'then this is subtracted (and the bias_m of both radios)', unit='m')
    use_message_variance: bool = option(
        True, 'take the variance of the message where it is positive')
    sigma_m: float = option(
        0.15, 'standard deviation where the message has none', unit='m', lower=1e-6, upper=1e3)
    sigma_per_m: float = option(
        0.0, 'added to it in quadrature, times the range', lower=0.0, upper=10.0)
    min_sigma_m: float = option(
        0.005, 'least standard deviation believed (one tick of a UWB radio is 4.7 mm)', unit='m',
        lower=1e-9, upper=10.0)
    max_rate_hz: float = option(
        50.0, 'of each pair of radios at most this many ranges per second of data time are kept',
        unit='1/s', lower=0.1)
    max_total_rate_hz: float = option(
        400.0, 'and of all pairs together; what is too much is taken from the busiest pairs',
        unit='1/s', lower=1.0)
    new_beacon_ranges: int = option(
        3, 'a radio that `radios` does not name becomes a beacon once so many ranges name it '
        '(fewer determine no position)', lower=1, upper=1000)
    max_new_beacons: int = option(
        200, 'at most this many radios that `radios` does not name become beacons', lower=0,
        upper=100000)
    merge_window_s: float = option(
        0.02, 'the two directions of one exchange, at most this far apart, count once '
        '(distinct ranges of a pair come some 60 ms apart)', unit='s', lower=0.0, upper=0.049)
    min_interval_s: float = option(
        0.0, 'of each pair of radios keep at most one range in this time; 0 = all', unit='s',
        lower=0.0, upper=3600.0)
    nlos: str = option(
        'ignore', 'what to do with ranges marked as without line of sight',
        choices=('ignore', 'inflate', 'drop'))
    nlos_sigma_scale: float = option(
        5.0, 'factor on the standard deviation for nlos: inflate', lower=1.0, upper=1e3)
    nlos_rssi_gap_db: float = option(
        0.0, 'total minus first-path power above which a range of unknown line of sight counts '
        'as blocked (10 is common); 0 = not used', unit='dB', lower=0.0, upper=100.0)
    temporal_window_s: float = option(
        0.0, 'ranges off a second-order polynomial through their neighbours of the same pair '
        'within this window are dropped (paper, appendix D: 2 s; five median absolute deviations); '
        'holds all ranges back by half of it; 0 = off', unit='s', lower=0.0, upper=60.0)
    attach: str = option(
        'exact',
        'exact: a range acts on the nearest keyframe through a lever arm that holds the '
        'odometry in between; nearest: as if taken there', choices=('exact', 'nearest'))
    time_offsets: dict[str, float] = option(
        {}, 'seconds added to the stamps, by source radio ("*" = all others)', unit='s')


@dataclass(frozen=True)
class SightingsConfig:
    """Landmarks that robots see and tell apart (tags, reflectors): sources, gates and noise."""

    inputs: dict[str, dict] = option(
        {'landmarks': {'topic': '/landmark_sightings', 'adapter': 'landmark_sighting'}},
        'sources by name: topic, adapter, type; naming any replaces the default')
    unknown_landmarks: str = option(
        'landmark', 'a landmark that `radios` does not name is one at an unknown position, or is '
        'ignored', choices=('landmark', 'ignore'))
    new_landmark_sightings: int = option(
        3, 'a landmark that `radios` does not name counts once it was seen so often; '
        '`ranges.max_new_beacons` is the most of them', lower=1, upper=1000)
    sensor_poses: dict[str, list[float]] = option(
        {}, 'pose in the base frame of the frame that positions are in: x y z, or x y z roll '
        'pitch yaw, by frame_id or by robot name; without it /tf_static says where frame_id '
        'sits', unit='m, rad')
    sigma_m: float = option(
        0.05, 'standard deviation per axis where the message has none', unit='m', lower=1e-6,
        upper=1e3)
    sigma_per_m: float = option(
        0.03, 'added to it in quadrature, times the distance (the size of a tag in pixels, and so '
        'its distance, is known to a few per cent)', lower=0.0, upper=10.0)
    min_sigma_m: float = option(
        0.005, 'least standard deviation believed (cameras are calibrated to some millimetres)',
        unit='m', lower=1e-9, upper=10.0)
    min_m: float = option(
        0.02, 'nearer landmarks are refused: no camera focuses there, and an empty message says 0',
        unit='m', lower=0.0, upper=1e5)
    max_m: float = option(100.0, 'farther landmarks are refused', unit='m', lower=0.0, upper=1e6)
    min_interval_s: float = option(
        0.1, 'of each robot, frame and landmark keep at most one sighting in this time; 0 = all '
        '(errors of pictures in a row are much alike)', unit='s', lower=0.0, upper=3600.0)
    max_total_rate_hz: float = option(
        200.0, 'at most so many sightings per second of data time are kept; what is too much is '
        'taken from the busiest robots and landmarks', unit='1/s', lower=1.0)
    time_offsets: dict[str, float] = option(
        {}, 'seconds added to the stamps, by robot name ("*" = all others)', unit='s')


@dataclass(frozen=True)
class ClosuresConfig:
    """Loop closures within and between robots: sources, gates and noise."""

    inputs: dict[str, dict] = option(
        {'closures': {'topic': '/loop_closures', 'adapter': 'loop_closure'}},
        'sources by name: topic, adapter, type, keyframe_topic, keyframe_type, robots; naming any '
        'replaces the default')
    sigma_m: float = option(
        0.1, 'translation noise where the message has none', unit='m', lower=1e-6, upper=1e3)
    sigma_rad: float = option(
        0.03, 'rotation noise where the message has none', unit='rad', lower=1e-6, upper=10.0)
    min_sigma_m: float = option(
        0.01, 'least translation noise believed (laser scans match to about 1 cm)', unit='m',
        lower=1e-9, upper=1e3)
    min_sigma_rad: float = option(
        0.001, 'least rotation noise believed', unit='rad', lower=1e-9, upper=10.0)
    min_confidence: float = option(
        0.0, 'closures of less confidence are refused (unknown confidence passes)', lower=0.0,
        upper=1.0)
    max_translation_m: float = option(
        10000.0, 'longer closures are refused; 0 = no bound', unit='m',
        lower=0.0)
    time_offsets: dict[str, float] = option(
        {}, 'seconds added to the stamps, by detector ("*" = all others), on top of the odometry '
        'offsets of the robots', unit='s')


@dataclass(frozen=True)
class FixesConfig:
    """Absolute positions and poses in the map frame."""

    topic: str = option('', 'topic of each robot, such as /{robot}/fix; empty = none')
    type: str = option(
        'geometry_msgs/msg/PoseWithCovarianceStamped', 'message type; PoseStamped and PointStamped '
        'say no covariance: their noise is sigma_m, and use: pose takes headings of a PoseStamped',
        choices=('geometry_msgs/msg/PoseWithCovarianceStamped', 'geometry_msgs/msg/PoseStamped',
                 'geometry_msgs/msg/PointStamped', 'sensor_msgs/msg/NavSatFix'))
    use: str = option(
        'auto', 'what to take from a pose: pose, position, or what its covariance vouches for',
        choices=('auto', 'position', 'pose'))
    max_heading_sigma_rad: float = option(
        1.0, 'auto: the heading counts if its standard deviation is below this', unit='rad',
        lower=1e-3, upper=10.0)
    sigma_m: float = option(
        1.0, 'position noise where the message has none', unit='m', lower=1e-6, upper=1e4)
    sigma_rad: float = option(
        0.1, 'heading noise where the message has none (use: pose)', unit='rad', lower=1e-6,
        upper=10.0)
    min_sigma_m: float = option(
        0.005, 'least position noise believed (satellite phase measurements reach 1 cm)',
        unit='m', lower=1e-9, upper=1e3)
    min_sigma_rad: float = option(
        0.001, 'least heading noise believed', unit='rad', lower=1e-9, upper=10.0)
    min_interval_s: float = option(
        0.0, 'keep at most one fix of a robot in this time; 0 = all', unit='s', lower=0.0)
    lever_arms: dict[str, list[float]] = option(
        {}, 'antenna or sensor in the base frame, x y z by robot name', unit='m')
    datum: list[float] = option(
        [], 'latitude, longitude (deg) and ellipsoidal height (m) of the map origin for NavSatFix',
        unit='deg, deg, m')
    max_distance_m: float = option(
        1e5, 'a NavSatFix farther from the datum is refused (receivers without a position send '
        '0, 0); 0 = no bound', unit='m', lower=0.0, upper=1.3e7)
    datum_heading_rad: float = option(
        0.0, 'direction of the map x axis, counter-clockwise from east', unit='rad')
    time_offsets: dict[str, float] = option(
        {}, 'seconds added to the stamps, by robot name ("*" = all others)', unit='s')
    initial_pose_topic: str = option(
        'initialpose', 'poses in map of the base of `initial_pose_robot`, as the button of RViz '
        'sends them; taken as a measurement with the covariance stated (3D: at the height of the '
        'odometry where it states none), whatever else `fixes` says; empty = none')
    initial_pose_robot: str = option(
        '', 'robot that they are of; empty = the gauge robot, or the first of `robots`')


@dataclass(frozen=True)
class HeightsConfig:
    """Heights of robots (3D): laser altimeters, barometers, autopilots."""

    inputs: dict[str, dict] = option(
        {}, 'sources of heights by a name of your choice: topic, type, field, scale, measures, '
        'sigma_m, sigma_m_per_sqrt_s, correlation_s, offset_m, min_m, max_m, lever_arm; by robot '
        'offset_m_of, lever_arm_of')
    beacon_sigma_m: float = option(
        10.0,
        'where robots measure heights, beacons of unknown position stand within about this '
        'of height 0; 0 = anywhere', unit='m', lower=0.0, upper=1e4)
    min_interval_s: float = option(
        0.25, 'keep at most one height of a sensor in this time; 0 = all', unit='s', lower=0.0)
    min_sigma_m: float = option(0.01, 'least noise believed', unit='m', lower=1e-9, upper=1e3)
    time_offsets: dict[str, float] = option(
        {}, 'seconds added to the stamps, by robot name ("*" = all others)', unit='s')


@dataclass(frozen=True)
class AttitudesConfig:
    """Roll and pitch by an IMU (3D), for odometry that does not know where up is."""

    topic: str = option('', 'sensor_msgs/Imu topic of each robot, as /{robot}/imu; empty = none')
    sigma_rad: float = option(
        0.0175, 'standard deviation of roll and pitch (1 degree)', unit='rad', lower=1e-5,
        upper=1.0)
    correlation_s: float = option(
        20.0, 'readings within this time share their error: together they count as one', unit='s',
        lower=0.0, upper=1e5)
    min_interval_s: float = option(
        0.5, 'keep at most one attitude of a robot in this time; 0 = all', unit='s', lower=0.0)
    mounts: dict[str, list[float]] = option(
        {}, 'roll pitch yaw of the IMU in the base frame, by robot name', unit='rad')
    time_offsets: dict[str, float] = option(
        {}, 'seconds added to the stamps, by robot name ("*" = all others)', unit='s')
