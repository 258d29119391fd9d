"""The ROS node: timers and wiring. All work is elsewhere, all of it short."""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rclpy.clock import Clock, ClockType
from rclpy.lifecycle import LifecycleNodeMixin, LifecycleState, TransitionCallbackReturn
from rclpy.node import Node

from ..backend.session.solution import Location, Solution
from ..config import SparserError
from ..config.sparser import SparserConfig
from . import saving
from .alarms import Alarms
from .callbacks import CallbackTimes, OnDemandTimer
from .messages import deserialise
from .parameters import Parameters
from .pipeline import Pipeline
from .publishers import Publishers
from .services import Services
from .status import StatusPublisher
from .subscriptions import Subscriptions

KINDS = ('subscription', 'timer', 'service', 'publisher')
"""In the order in which they are destroyed: what may call comes before what is called."""
INTAKE_PERIOD_S = 0.1
"""Buffered data become keyframes and go to the solver."""
POLL_PERIOD_S = 0.05
"""Between two looks for a finished solution."""
ODOMETRY_PERIOD_S = 0.02
"""Least time between two ~/odometry of a robot."""
DISCOVERY_PERIOD_S = 1.0
"""Between two looks for new topics that match a pattern."""
SUCCESS, FAILURE = TransitionCallbackReturn.SUCCESS, TransitionCallbackReturn.FAILURE
SLOW_START_S = 8.0
"""From when a start is worth a word."""


class SparserNode(Node):
    """Odometry, ranges and loop closures in; map -> odom, paths, beacons and status out.

    Solve, TF and status timers run on the steady clock, because a timer of the node's clock never
    fires once `/clock` stops; stamps come from the node's clock.
    """

    pipeline: Pipeline
    outputs: Publishers
    inputs: Subscriptions
    alarms: Alarms

    def __init__(self, name: str = 'sparser', *, begin: bool = True, **options: Any) -> None:
        """`begin`: configure and activate at once, as a node that nobody manages does."""
        super().__init__(name, **options)
        self.parameters = Parameters(self)
        self.times = CallbackTimes(self._raised, self.context.ok)
        self._next_epoch = 0
        self._configured: Entities | None = None
        self._active: Entities | None = None
        self._commands: Services | None = None
        self.parameters.changed = self.times.timed('configure', self._configure)
        if begin:
            self.configure()
            try:
                self.activate()
            except BaseException:
                self.cleanup()
                raise

    def configure(self) -> None:
        """Make the front-end, the solver processes and the publishers; nothing is heard yet.

        ConfigError for parameters, or a map file, that cannot be used.
        """
        config = self.parameters.config
        if config.node.map_file:
            config = saving.with_beacons(config, config.node.map_file)
        self._configured = Entities(self)
        self.pipeline = Pipeline(
            config, deserialise, self._journal_folder(config), self._next_epoch)
        recording = self.pipeline.recording
        if recording.words:
            self.get_logger().info(recording.words)
        for finding in recording.findings:
            self.get_logger().error(finding.text)
        if config.node.map_file:
            known = sum(bool(spec.position) for spec in self.pipeline.config.radio_specs().values())
            self.get_logger().info(
                f'the map {config.node.map_file} is taken over: {known} beacons are known')
        self._latency_s = math.nan
        self._jumped_back = False
        self._located: dict[str, Location] = {}
        self._backend = ''
        self._restarts = 0
        self._begin, self._said_starting, self._ready = time.monotonic(), False, False
        try:
            self.outputs = Publishers(self, self.pipeline)
        except BaseException:
            self.cleanup()
            raise

    def activate(self) -> None:
        """Subscribe, offer the services, and begin to solve and to publish."""
        self._active = Entities(self)
        config = self.pipeline.config
        try:
            self.inputs = Subscriptions(self, self.pipeline, self.times)
            self._commands = Services(self, self.pipeline, self.times, self.reset)
            self.alarms = Alarms(
                self, self.pipeline, self.inputs, self.times, self.parameters.hints)
            self._status = StatusPublisher(
                self, self.pipeline, self.inputs, self.outputs, self.alarms, self.times)
            self._timers_of(config)
        except BaseException:
            self.deactivate()
            raise
        self._log_start(config)
        gc.collect()
        gc.freeze()

    def deactivate(self, *, drain: bool = False) -> None:
        """Hear, solve and publish nothing any more; the map is kept.

        `drain`: take in what has arrived before.
        """
        if self._active is None:
            return
        if drain:
            self.inputs.drain()
            self.pipeline.intake()
        owing = [] if self._commands is None else self._commands.end()
        for entities in (self._active, self._configured):
            if entities is not None:
                entities.spare(owing)
        self._active.destroy()
        self._active = self._commands = None

    def cleanup(self) -> None:
        """Deactivate, end the solver processes, and forget all data but the journal's."""
        self.deactivate()
        if self._configured is None:
            return
        gc.unfreeze()
        self._next_epoch = self.pipeline.worker.epoch + 1
        self.pipeline.close()
        self._configured.destroy()
        self._configured = None

    def _journal_folder(self, config: SparserConfig) -> Path | None:
        """A folder of its own for every node: two in one would be one journal of two maps."""
        directory = config.node.journal.directory
        name = self.get_fully_qualified_name().strip('/').replace('/', '.')
        return Path(directory).expanduser() / name if directory else None

    def _timers_of(self, config: SparserConfig) -> None:
        steady, node = Clock(clock_type=ClockType.STEADY_TIME), config.node
        self._odometry_timer = OnDemandTimer(
            self, ODOMETRY_PERIOD_S, self.times.timed('odometry_in_map', self._follow))
        timers = {name: self.create_timer(
            period, self.times.timed(name, callback), clock=steady) for name, period, callback in (
            ('tf', 1.0 / node.tf_rate_hz, self._broadcast),
            ('intake', INTAKE_PERIOD_S, self._intake),
            ('poll', POLL_PERIOD_S, self._poll),
            ('solve', node.solve_period_s, self.pipeline.request_solve),
            ('status', node.status_period_s, self._report),
            ('diagnostics', node.status_period_s, self._diagnose),
            ('discovery', DISCOVERY_PERIOD_S, self.inputs.discover))}
        self._solve_timer = timers['solve']

    def _configure(self, config: SparserConfig) -> None:
        if self._configured is None:
            return
        self.pipeline.configure(config)
        if self._active is not None:
            self._solve_timer.timer_period_ns = int(config.node.solve_period_s * 1e9)

    def _broadcast(self) -> None:
        if self._steady():
            self.outputs.broadcast(self.alarms.withheld)

    def _follow(self) -> bool:
        if self._steady():
            self.outputs.follow(self.alarms.withheld)
        return self.outputs.followed

    def _steady(self) -> bool:
        """Whether the clock goes on as before."""
        self._jumped_back |= self.alarms.clock.look()
        return self.alarms.clock.trusted and not self._jumped_back

    def _intake(self) -> None:
        wanted = self.pipeline.config.node.reset_on_time_jump
        self._steady()
        jumped, self._jumped_back = self._jumped_back, False
        if wanted and jumped:
            self.reset(self.alarms.clock.words, restart_stamps=True)
        elif wanted and self.pipeline.frontend.time_jump:
            # Those of TF go back as well, unless the clock is still where it was.
            self.reset('the stamps of the odometry jumped back', restart_stamps=True)
        self.pipeline.intake()
        while self.pipeline.thinned:
            self.get_logger().info(self.pipeline.thinned.pop(0))
        self.alarms.look()

    def _poll(self) -> None:
        solution = self.pipeline.poll()
        if solution is not None:
            self._latency_s = (
                self.get_clock().now().nanoseconds - solution.newest_stamp_ns) * 1e-9
            self.alarms.staleness.solved()
            self.outputs.publish(solution)
            # Before it is said that they are located.
            self.outputs.work()
            self._log_solution(solution)
            self._report()
        else:
            self.outputs.work()

    def _report(self) -> None:
        self._status.report(self._latency_s)

    def _diagnose(self) -> None:
        # What is alive now mostly stays; frozen, it costs later collections no time: a full one
        # over the odometry of an hour would hold up every callback.
        gc.collect(1)
        gc.freeze()
        if self.outputs.followed:
            self._odometry_timer.wake()
        self.alarms.look_around()
        self._watch_worker()
        self._status.diagnose()

    def _watch_worker(self) -> None:
        state, after_s = self.pipeline.worker.state, time.monotonic() - self._begin
        if not self._ready and not state.restarting:
            self._ready = True
            self.get_logger().info(f'the solver is ready, {after_s:.0f} s after the start')
        elif not self._ready and not self._said_starting and after_s > SLOW_START_S:
            self._said_starting = True
            self.get_logger().info(state.text)
        if state.restarts > self._restarts:
            self._restarts = state.restarts
            self.get_logger().error(
                f'the solver process ended; started again (restart {state.restarts}); '
                'all data are sent to it once more')

    def _log_solution(self, solution: Solution) -> None:
        cost = solution.stats.cost_final
        advice = '' if solution.status.solved else f'; {solution.message} {solution.status.advice}'
        self.get_logger().debug(
            f'{"map of an audit taken over" if solution.full else "solved"} in '
            f'{solution.seconds:.2f} s: cost {math.nan if cost is None else cost:.6g}, '
            f'{len(solution.estimate.translation)} poses, {solution.status.value}{advice}')
        where, why = solution.stats.backend, solution.stats.backend_reason
        # What needs no choice of where to run gives no reason: odometry alone, followed ticks.
        if why and where != self._backend:
            self._backend = where
            self.get_logger().debug(f'solving on the {where}: {why}')
        for item in solution.robots:
            if self._located.get(item.robot) != item.location:
                self._located[item.robot] = item.location
                missing = f': {item.missing}' if item.missing else ''
                self.get_logger().info(f'{item.robot} is {item.location.value}{missing}')

    def _raised(self, name: str, text: str) -> None:
        self.get_logger().error(f'exception in the callback {name!r}; the node goes on\n{text}')

    def reset(self, why: str, *, restart_stamps: bool = False,
              config: SparserConfig | None = None) -> None:
        """Forget all data and withdraw everything published in `map`.

        `config` has other known beacons.
        """
        self.get_logger().warning(f'reset: {why}')
        gc.unfreeze()
        self.pipeline.reset(config)
        self.outputs.clear(restart_stamps=restart_stamps)
        self.alarms.clear()
        self._jumped_back = False
        self._located = {}
        self._latency_s = math.nan

    def _log_start(self, config: SparserConfig) -> None:
        frames = config.frames
        lines = [f'{config.dimension}D, robots: {", ".join(config.robots)}']
        for robot in config.robots:
            lines.append(
                f'  {robot}: {frames.map} -> {config.topic(frames.odom, robot)} -> '
                f'{config.topic(frames.base, robot)}')
        lines += [f'  {line}' for line in self.inputs.describe()]
        lines.append(
            f'  solver: {config.backend.worker}, arrays {config.solver.backend}, kernel '
            f'{config.solver.robust.kernel}, every {config.node.solve_period_s} s')
        sim_time = self.get_parameter('use_sim_time').value
        lines.append(f'  time: {"/clock" if sim_time else "system"}')
        self.get_logger().info('\n'.join(lines))

    def destroy_node(self) -> None:
        """End the solver process, then the node."""
        self.cleanup()
        super().destroy_node()


class ManagedSparserNode(SparserNode, LifecycleNodeMixin):
    """Unconfigured: parameters only. Inactive: the map is kept, nothing is heard or published.

    `configure` makes the solver processes and goes on with the journal where that is asked for,
    `activate` subscribes and publishes, `deactivate` stops that and keeps the map, `cleanup` ends
    the processes and forgets the map.
    """

    def __init__(self, name: str = 'sparser', **options: Any) -> None:
        SparserNode.__init__(self, name, begin=False, **options)
        LifecycleNodeMixin.__init__(self)
        self.get_logger().info('waiting to be configured by a lifecycle manager')

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """FAILURE for parameters that cannot be used: the node stays unconfigured."""
        return self._done('configure', self.configure)

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """FAILURE for topics that cannot be had, such as of a message type not installed."""
        return self._done('activate', self.activate)

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Also of a map that waits for a solve: it is made after the next activation."""
        return self._done('deactivate', lambda: self.deactivate(drain=True))

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        """As if the process had ended."""
        return self._done('cleanup', self.cleanup)

    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        """From any state."""
        return self._done('shutdown', self.cleanup)

    def on_error(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Back to unconfigured, with nothing left over."""
        return self._done('error', self.cleanup)

    def _done(self, name: str, action: Callable[[], None]) -> TransitionCallbackReturn:
        """Do what a transition asks for. rclpy says nothing of an exception: the log does."""
        try:
            action()
        except SparserError as error:
            self.get_logger().error(f'{name}: {error}')
            return FAILURE
        except Exception as error:
            self.times.caught(name, error)
            return TransitionCallbackReturn.ERROR
        self.get_logger().info(f'{name}: done')
        return SUCCESS


class Entities:
    """Publishers, subscriptions, services and timers that a node makes from here on."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._before = {id(entity) for kind in KINDS for entity in self._all(kind)}

    def _all(self, kind: str) -> list[Any]:
        return list(getattr(self._node, f'{kind}s'))

    def spare(self, entities: Sequence[Any]) -> None:
        """Leave these to who made them."""
        self._before.update(map(id, entities))

    def destroy(self) -> None:
        """Destroy them."""
        for kind in KINDS:
            for entity in self._all(kind):
                if id(entity) not in self._before:
                    getattr(self._node, f'destroy_{kind}')(entity)
