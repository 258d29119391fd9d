"""A node under test with a publisher and an observer beside it, all in this process."""

import contextlib
import time
from collections import defaultdict

import numpy as np
import rclpy
from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import PoseWithCovarianceStamped
from nav_msgs.msg import Odometry, Path
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor
from rclpy.parameter import Parameter
from rclpy.qos import DurabilityPolicy, QoSProfile
from rosgraph_msgs.msg import Clock
from sparser_ros.msg import LandmarkSighting, LoopClosure, SolverStatus, UwbRange
from std_srvs.srv import SetBool, Trigger
from tf2_msgs.msg import TFMessage
from visualization_msgs.msg import MarkerArray

from sparser_ros.config.simulation_config import SimulationConfig
from sparser_ros.demo.processes import free_domain
from sparser_ros.io.simulation import Simulation
from sparser_ros.io.tum import quats, xyz
from sparser_ros.linalg.rotations import quat_to_matrix
from sparser_ros.node.messages import stamp_ns, time_message
from sparser_ros.node.node import SparserNode
from sparser_ros.node.picture import lifted

SECOND = 10**9
START_S = 300
"""Patience with a start, in s: tracker, then auditor compile their kernels, on a busy machine."""
PATIENCE_S = 120
"""Patience with anything else, in s: six busy processes share two cores with the node."""
SCENE = SimulationConfig(
    robots=2, beacons=4, minutes=0.8, odometry_rate=4.0, range_rate=8.0, outliers=0.0,
    truth_rate=0.0, radius=15.0, range_sigma=0.05, range_sigma_per_m=0.0, seed=3)
PARAMETERS = {
    'dimension': 2, 'robots': ['A', 'B'], 'odometry_noise': 'pose_increment',
    'keyframes.every_message': True, 'node.solve_period_s': 0.3, 'node.status_period_s': 0.2,
    'node.flush_after_s': 0.5,
    'node.stale_after_s': 0.0, 'backend.audit.period_s': 0.0,
    # Tests wait for audits. At a low priority they would starve beside other busy processes.
    'backend.audit.niceness': 0,
}
THREAD = {'backend.worker': 'thread', 'node.start_paused': True}
"""Of a node that solves only when asked, without a process of its own."""


@contextlib.contextmanager
def friend(name='friend', domain=None):
    """(node, until) in a domain of its own: `until` runs the node until a condition holds."""
    # In a domain of others a participant that was killed would be heard for twenty seconds.
    context = Context()
    rclpy.init(context=context, domain_id=domain or free_domain())
    node = rclpy.create_node(name, context=context)
    executor = SingleThreadedExecutor(context=context)
    executor.add_node(node)

    def until(condition):
        end = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < end, 'in vain'
            executor.spin_once(timeout_sec=0.01)

    try:
        yield node, until
    finally:
        executor.shutdown(timeout_sec=2.0)
        node.destroy_node()
        rclpy.try_shutdown(context=context)


def parameters(values):
    """Parameter overrides of a flat mapping."""
    return [Parameter(name, value=value) for name, value in values.items()]


def odometry_message(robot, stamp, position, quat, covariance):
    """A `nav_msgs/Odometry`; covariance (6, 6)."""
    message = Odometry()
    message.header.stamp = time_message(stamp)
    message.header.frame_id, message.child_frame_id = f'{robot}/odom', f'{robot}/base_link'
    fill_pose(message.pose.pose.position, message.pose.pose.orientation, position, quat)
    message.pose.covariance = np.asarray(covariance, dtype=float).ravel()
    return message


def range_message(source, target, stamp, distance, variance=0.01):
    """A `sparser_ros/UwbRange`."""
    message = UwbRange(source=source, target=target, range=float(distance),
                       variance=float(variance), first_path_rssi=float('nan'),
                       rx_rssi=float('nan'))
    message.header.stamp = time_message(stamp)
    return message


def fill_pose(point, quat, position_xyz, quat_xyzw):
    """Write (3,) and (4,) into message fields x y z and x y z w."""
    point.x, point.y, point.z = map(float, position_xyz)
    quat.x, quat.y, quat.z, quat.w = map(float, quat_xyzw)


def transform_of(message):
    """(4, 4) of a Pose or a Transform."""
    point = getattr(message, 'position', None) or message.translation
    turn = getattr(message, 'orientation', None) or message.rotation
    return lifted(quat_to_matrix(np.array([turn.x, turn.y, turn.z, turn.w])),
                  np.array([point.x, point.y, point.z]))


class Scene:
    """Messages of a simulated run in time order, its stamps moved to end at `end_ns`."""

    def __init__(self, config=SCENE, end_ns=None):
        self.run = run = Simulation(config)
        last = max(int(track.stamp_ns[-1]) for track in run.tracks)
        self.shift = (time.time_ns() if end_ns is None else end_ns) - last
        names = [*run.robots, *run.beacon_names]
        events = []
        self.odometry = {}
        for robot, track in zip(run.robots, run.tracks, strict=True):
            positions, turns = xyz(track.translation), quats(track.rotation)
            for k, stamp in enumerate((track.stamp_ns + self.shift).tolist()):
                covariance = np.diag([track.translation_variance[k]] * 3
                                     + [track.rotation_variance[k]] * 3)
                message = odometry_message(robot, stamp, positions[k], turns[k], covariance)
                self.odometry[robot, stamp] = message
                events.append((stamp, f'/{robot}/odom', message))
        table = run.exchanges
        for k, stamp in enumerate((table.stamp_ns + self.shift).tolist()):
            events.append((stamp, '/uwb/ranges', range_message(
                names[table.source[k]], names[table.target[k]], stamp, table.range_m[k],
                table.variance[k])))
        self.events = sorted(events, key=lambda event: event[0])

    def truth(self, robot):
        """{stamp: (d,)} true positions."""
        track = self.run.tracks[self.run.robots.index(robot)]
        return dict(zip((track.stamp_ns + self.shift).tolist(), track.true_translation,
                        strict=True))


class World:
    """Use as a context manager; `spin` runs everything."""

    NODE = SparserNode

    def __init__(self, overrides=None):
        self.context = Context()
        rclpy.init(context=self.context)
        self.executor = SingleThreadedExecutor(context=self.context)
        self.friend = rclpy.create_node('friend', context=self.context)
        self.heard = defaultdict(list)
        self.publishers = {}
        values = {**PARAMETERS, **(overrides or {})}
        latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        for topic, kind, profile in (
            ('/tf', TFMessage, 100), ('/sparser/status', SolverStatus, 10),
            ('/diagnostics', DiagnosticArray, 10),
            ('/sparser/markers', MarkerArray, latched), ('/sparser/beacons', MarkerArray, latched),
            *((f'/sparser/path/{robot}', Path, latched) for robot in values['robots']),
            *((f'/sparser/pose/{robot}', PoseWithCovarianceStamped, 10)
              for robot in values['robots']),
        ):
            self.friend.create_subscription(kind, topic, self.heard[topic].append, profile)
        for topic, kind in (
            *((f'/{robot}/odom', Odometry) for robot in values['robots']),
            ('/uwb/ranges', UwbRange), ('/loop_closures', LoopClosure),
            ('/landmark_sightings', LandmarkSighting), ('/clock', Clock),
        ):
            self.publishers[topic] = self.friend.create_publisher(kind, topic, 5000)
        try:
            self.node = self.NODE(
                context=self.context, parameter_overrides=parameters(values))
        except BaseException:
            self.friend.destroy_node()
            rclpy.try_shutdown(context=self.context)
            raise
        self.executor.add_node(self.friend)
        self.executor.add_node(self.node)

    def __enter__(self):
        assert self.until(lambda: all(
            self.publishers[topic].get_subscription_count() for topic in self.node.inputs.inputs
            if topic in self.publishers)), 'the node did not subscribe'
        return self

    def __exit__(self, *_):
        self.executor.shutdown(timeout_sec=2.0)
        self.node.destroy_node()
        self.friend.destroy_node()
        rclpy.try_shutdown(context=self.context)

    def spin(self, seconds):
        """Run for a while."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self.executor.spin_once(timeout_sec=left)

    def until(self, condition, timeout=PATIENCE_S):
        """Run until a condition holds; false when it does not in time."""
        end = time.monotonic() + timeout
        while not condition():
            if time.monotonic() > end:
                return False
            self.executor.spin_once(timeout_sec=0.05)
        return True

    def solved(self):
        """Wait until a solution includes all data."""
        pipeline = self.node.pipeline
        assert self.until(lambda: pipeline.solution is not None and pipeline.flushed
                          and pipeline.up_to_date, START_S), pipeline.worker.state
        return pipeline.solution

    def located(self, count=2):
        """Wait until so many robots are located: an audit must have placed them."""
        assert self.until(lambda: self.status.robots_located == count, START_S), self.status

    def map_of(self, events):
        """Play messages, and wait until all are in a solution and both robots are located."""
        self.play(events)
        self.solved()
        self.located()

    def told(self, words):
        """Wait until a finding of the status has these words."""
        assert self.until(lambda: any(
            words in text for text in self.status.findings)), self.status

    def send(self, topic, message):
        """Publish one message."""
        self.publishers[topic].publish(message)

    def play(self, events, batch=40):
        """Publish messages quickly, running everything in between."""
        for number, (_, topic, message) in enumerate(events):
            self.send(topic, message)
            if number % batch == batch - 1:
                self.spin(0.02)

    def call(self, service, data=None):
        """Call a service of the node."""
        if data is None:
            return self.asker(Trigger, service)()
        return self.asker(SetBool, service)(data=data)

    def asker(self, kind, service):
        """A function that calls a service of ours with fields of its request."""
        client = self.friend.create_client(kind, f'/sparser/{service}')
        assert self.until(client.service_is_ready), f'{service} is not offered'

        def ask(**fields):
            future = client.call_async(kind.Request(**fields))
            assert self.until(future.done, START_S), f'{service} did not answer'
            return future.result()

        return ask

    @property
    def status(self):
        """The newest status, once there is one."""
        assert self.until(lambda: self.heard['/sparser/status']), 'the node says nothing'
        return self.heard['/sparser/status'][-1]

    def counters(self):
        """The front-end's counts."""
        return self.node.pipeline.frontend.counters.as_dict()

    def transforms(self):
        """[(stamp_ns, child frame, (4, 4))] in order of arrival."""
        return [(stamp_ns(one.header.stamp), one.child_frame_id, transform_of(one.transform))
                for message in self.heard['/tf'] for one in message.transforms]
