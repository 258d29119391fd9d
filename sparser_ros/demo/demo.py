"""`./dev/demo`: plays a bag into the real node, records what it publishes, and writes the map.

    python -m sparser_ros.demo.demo [GRAPH.pyfg | BAG] [--rate R] [--config C.yaml]

Exit code 0: every message was accepted or counted as dropped, the last solution contains all data
and every robot has a pose with a covariance; 2: bad input; 3: one of these failed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..cli.console import (
    BAD_INPUT,
    INTERRUPTED,
    NOT_CONVERGED,
    SOLVED,
    TERMINATED,
    progress_bar,
)
from ..config import ConfigError, SparserError, walk
from ..config.backend_config import AuditConfig
from ..config.option import merged
from ..config.sparser import SparserConfig
from .processes import Child, isolated_environment

if TYPE_CHECKING:
    from .demo_data import DemoInput
    from .observers import Monitor

START_TIMEOUT_S = 60.0
"""Longest wait for the first status of the node."""
NOTICE_AFTER_S = 8.0
"""Wait for the solver process after which the user is told what it does."""
COMPILE_TIMEOUT_S = 300.0
"""Longest wait for the solver process, which compiles its kernels at the first start."""
SAVE_TIMEOUT_S = 120.0
PLAY_SLACK_S = 120.0
"""Time that the player may need beyond the length of the bag."""
LISTEN_TIMEOUT_S = 20.0
"""Longest wait of the player for the node's subscriptions."""
DEFAULT_SECONDS = 90.0
"""Playing time that the default rate aims at."""
LEAST_TIMEOUT_S, TRANSPORT_S = 2.0, 2.0
"""`stamps.timeout_s`, in data time: at least the first, and the second (wall time that a message
may take on a busy machine) times the rate."""
LINE_PERIOD_S = 10.0
"""Period of progress lines where stdout is no terminal."""


def main(arguments: list[str] | None = None) -> int:
    """Run the demo; returns its exit code."""
    parser = argparse.ArgumentParser(prog='dev/demo', description=(__doc__ or '').split('\n')[0])
    parser.add_argument('input', nargs='?', type=Path, metavar='GRAPH.pyfg | BAG',
                        help='graph or bag to play (default: a bundled simulation)')
    parser.add_argument('--rate', type=positive, metavar='R',
                        help='multiple of real time (default: 1, or what plays the bag in 90 s)')
    parser.add_argument('--config', type=Path, metavar='C.yaml',
                        help='parameters of the node; they replace those chosen for the input')
    parser.add_argument('--out', type=Path, metavar='DIR',
                        help='folder of results, emptied first (default out)')
    parser.add_argument('--settle', type=positive, default=60.0, metavar='S',
                        help='longest wait for the last solution, in s (default 60)')
    parser.add_argument('--seed', type=int, default=0, help='seed of the simulation')
    parser.add_argument('--clock', type=positive, default=100.0, metavar='HZ',
                        help='rate of /clock in wall time (default 100)')
    args = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(TERMINATED))
    try:
        with tempfile.TemporaryDirectory(prefix='sparser_demo_') as scratch:
            return run(args, Path(scratch))
    except SparserError as error:
        print(f'demo: {error}', file=sys.stderr)
        return BAD_INPUT
    except KeyboardInterrupt:
        print('demo: interrupted', file=sys.stderr)
        return INTERRUPTED


def positive(text: str) -> float:
    value = float(text)
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f'must be above zero and finite, not {text}')
    return value


def run(args: argparse.Namespace, scratch: Path) -> int:
    """Prepare, play, wait, save, report."""
    from ..io.atomic import write_parameters
    from ..io.report import write as write_report
    from . import demo_data
    from .observers import Monitor

    begin = time.monotonic()
    say('preparing the data')
    data = demo_data.prepare(args.input, args.config, scratch, args.seed)
    rate = args.rate or max(1.0, data.bag_seconds / DEFAULT_SECONDS)
    out = emptied(args.out)
    parameters = in_faster_time(data.parameters, rate)
    node_options = {**parameters.get('node', {}), 'save_directory': str(scratch / 'saved')}
    write_parameters(scratch / 'parameters.yaml', {**parameters, 'node': node_options})
    write_parameters(out / 'parameters.yaml', parameters)
    environment = isolated_environment()
    # The observers run in this process and need the ROS domain of the child processes.
    os.environ.update(environment)
    # The node runs on the time of /clock.
    node_command = [sys.executable, '-m', 'sparser_ros.node.main', '--ros-args', '--params-file',
                    str(scratch / 'parameters.yaml'), '-p', 'use_sim_time:=true']
    with contextlib.ExitStack() as stack:
        monitor = stack.enter_context(contextlib.closing(Monitor(data.config)))
        node = stack.enter_context(Child(node_command, out / 'node.log', environment))
        await_node(monitor, node)
        say(f'playing {data.name} at {rate:g} times real time')
        started, used = time.monotonic(), node.cpu_seconds()
        played = play(data, rate, args.clock, scratch, environment, monitor, node)
        cores = (node.cpu_seconds() - used) / (time.monotonic() - started)
        say('end of the data; waiting for the last solution')
        settled_after = settle(monitor, node, args.settle)
        monitor.close_gaps()
        saved = save(monitor)
        node_exit = node.stop()
        report = demo_data.report_of(data, saved, monitor.seen, played, settled_after,
                                     time.monotonic() - begin, rate, cores)
        report['node_exit_code'] = node_exit
        report['log_lines'] = demo_data.log_lines(out / 'node.log')
    write_report(out / 'report.json', report)
    if saved is not None:
        shutil.copytree(saved, out, dirs_exist_ok=True)
        demo_data.draw(saved / 'map.pyfg', out / 'map.png', data, report)
    print(demo_data.summary(report, out))
    return SOLVED if report['passed'] else NOT_CONVERGED


def in_faster_time(parameters: dict[str, Any], rate: float) -> dict[str, Any]:
    """Parameters in data time that stand for wall time: of transport, and of audits."""
    most = {option.name: option.info.upper or math.inf for option in walk(SparserConfig)}
    return merged({
        'stamps': {'timeout_s': min(
            max(LEAST_TIMEOUT_S, TRANSPORT_S * rate), most['stamps.timeout_s'])},
        'backend': {'audit': {'stale_s': min(
            AuditConfig().stale_s * max(1.0, rate), most['backend.audit.stale_s'])}},
    }, parameters)


def emptied(chosen: Path | None) -> Path:
    """The folder of results, emptied: `out`, or the chosen one.

    ConfigError for one that cannot be made, and for one that has files but no parameters.yaml of an
    earlier demo: its files would be lost.
    """
    out = chosen or Path('out')
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f'--out {out}: no such folder can be made: {error.strerror}') from None
    if any(out.iterdir()) and not (out / 'parameters.yaml').exists():
        raise ConfigError(f'--out {out}: not empty and not from an earlier demo; name another one')
    for path in out.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    return out


def wait_for(
    condition: Callable[[], bool], node: Child, timeout_s: float, *, period_s: float = 0.05,
    meanwhile: Callable[[], None] = lambda: None, fault: str = 'the node ended',
) -> bool:
    """Wait for a condition; False after the timeout. `meanwhile` is called every period.

    SparserError with `fault` and the node's output where the node ends.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        met = condition()
        if node.poll() is not None:
            raise SparserError(f'{fault}:\n{node.tail()}')
        if met or time.monotonic() > deadline:
            return met
        meanwhile()
        time.sleep(period_s)


def await_node(monitor: Monitor, node: Child) -> None:
    """Wait for the node's first status, and until its solver takes data: the bag might end before.

    SparserError with the node's output where there is no status.
    """
    fault = 'the node did not start'
    if not wait_for(lambda: monitor.seen.status is not None, node, START_TIMEOUT_S, fault=fault):
        raise SparserError(f'{fault}:\n{node.tail()}')
    if not wait_for(lambda: monitor.seen.ready, node, NOTICE_AFTER_S):
        say('waiting for the solver, which compiles its kernels on the first start')
        wait_for(lambda: monitor.seen.ready, node, COMPILE_TIMEOUT_S)


def play(
    data: DemoInput, rate: float, clock_hz: float, scratch: Path, environment: dict[str, str],
    monitor: Monitor, node: Child,
) -> dict[str, Any]:
    """Play the bag to its end; returns the player's report."""
    seconds = data.bag_seconds / rate
    report = scratch / 'played.json'
    command = [sys.executable, '-m', 'sparser_ros', 'play', str(data.bag), '--rate', str(rate),
               '--clock', str(clock_hz), '--wait', str(LISTEN_TIMEOUT_S), '--exclude', '/tf',
               '--report', str(report)]
    with progress(seconds, monitor) as tick, Child(
        command, scratch / 'player.log', environment
    ) as player:
        ended = wait_for(lambda: player.poll() is not None, node, seconds + PLAY_SLACK_S,
                         period_s=0.2, meanwhile=tick)
        if not ended or player.poll() != 0 or not report.exists():
            raise SparserError(f'the bag was not played to its end:\n{player.tail()}')
    played: dict[str, Any] = json.loads(report.read_text(encoding='utf-8'))
    return played


def settle(monitor: Monitor, node: Child, timeout_s: float) -> float | None:
    """Wait until the node's solution contains all data: seconds, None after the timeout."""
    begin = time.monotonic()
    # Diagnostics sent before the last message arrived may still say `settled`: they are dropped.
    time.sleep(min(1.0, timeout_s))
    monitor.seen.diagnostics.pop('graph', None)
    done = wait_for(lambda: monitor.seen.settled, node, timeout_s - 1.0, period_s=0.1)
    return time.monotonic() - begin if done else None


def save(monitor: Monitor) -> Path | None:
    """Call ~/save; returns the folder, None where the node has nothing to save."""
    response = monitor.call('save', SAVE_TIMEOUT_S)
    if not response.success:
        say(f'the node did not save: {response.message}')
        return None
    folder, *lacks = response.message.splitlines()
    for text in lacks:
        say(f'saved: {text}')
    return Path(folder)


def say(text: str) -> None:
    print(f'demo: {text}', flush=True)


@contextlib.contextmanager
def progress(seconds: float, monitor: Monitor) -> Iterator[Callable[[], None]]:
    """Give a function that updates a bar on a terminal, or prints a line every LINE_PERIOD_S."""
    def elapsed() -> float:
        seen = monitor.seen
        return min(seconds, time.monotonic() - seen.first_clock_steady_s) if seen.clock_count else 0

    def state() -> str:
        status = monitor.seen.status
        if status is None:
            return ''
        return (f'{status.robots_located}/{status.robots} robots located, {status.keyframes} '
                f'keyframes, {status.ranges} ranges, cost {status.cost:.1f}')

    with progress_bar() as draw:
        if draw is not None:
            yield lambda: draw(elapsed(), seconds, state())
            return
    last = [time.monotonic()]

    def line() -> None:
        now = time.monotonic()
        if now - last[0] >= LINE_PERIOD_S:
            last[0] = now
            say(f'{elapsed():.0f} of {seconds:.0f} s: {state()}')

    yield line


if __name__ == '__main__':
    sys.exit(main())
