"""Child processes that never outlive their parent."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

LOWEST_DOMAIN, HIGHEST_DOMAIN = 31, 101
"""People choose small numbers; above the highest one the ports of DDS meet those that Linux hands
out by itself."""
_PORTS, _FIRST_PARTICIPANT = 250, 7410
"""Ports of a domain, and that of the first participant of domain 0 (DDSI-RTPS 2.5, 9.6.2)."""


def isolated_environment(domain: int | None = None) -> dict[str, str]:
    """The environment with a DDS domain of its own on this machine."""
    chosen = free_domain() if domain is None else domain
    environment = {**os.environ, 'ROS_DOMAIN_ID': str(chosen)}
    if environment.get('ROS_DISTRO') == 'humble':
        environment['ROS_LOCALHOST_ONLY'] = '1'
    else:
        environment['ROS_AUTOMATIC_DISCOVERY_RANGE'] = 'LOCALHOST'
    return environment


def free_domain() -> int:
    """A random DDS domain in which nobody on this machine is yet."""
    domains = list(range(LOWEST_DOMAIN, HIGHEST_DOMAIN + 1))
    random.SystemRandom().shuffle(domains)
    return next((domain for domain in domains if not taken(domain)), domains[0])


def taken(domain: int) -> bool:
    """Whether a node on this machine is in a domain."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind(('', _FIRST_PARTICIPANT + _PORTS * domain))
        except OSError:
            return True
    return False


class Child:
    """A process in a group of its own; leaving the context ends the whole group."""

    def __init__(
        self, command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        self.command = list(command)
        self.log = log
        self._stream = log.open('wb')
        self._process = subprocess.Popen(
            self.command, stdout=self._stream, stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL, env=None if environment is None else dict(environment),
            start_new_session=True)

    @property
    def pid(self) -> int:
        return self._process.pid

    def poll(self) -> int | None:
        """Exit code, or None while it runs."""
        return self._process.poll()

    def tail(self, lines: int = 15) -> str:
        text = self.log.read_text(encoding='utf-8', errors='replace')
        return '\n'.join(text.splitlines()[-lines:])

    def cpu_seconds(self) -> float:
        """Processor time of its group so far, of the processes that still run."""
        ticks = 0
        for stat in Path('/proc').glob('[0-9]*/stat'):
            with contextlib.suppress(OSError):
                text = stat.read_text(encoding='utf-8', errors='replace')
                # After the name: state, parent, group, …, user and system time.
                fields = text.rpartition(')')[2].split()
                if int(fields[2]) == self.pid:
                    ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf('SC_CLK_TCK')

    def stop(self, timeout_s: float = 8.0) -> int | None:
        """Interrupt it, and kill whatever of its group is left; returns its exit code."""
        if self._process.poll() is None:
            self._signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout_s)
        self._signal(signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(5.0)
        self._stream.close()
        return self._process.returncode

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
