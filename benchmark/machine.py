"""Machine, date and load of a measurement, and the environment that limits it to one thread."""

from __future__ import annotations

import datetime
import os
import platform
from pathlib import Path

THREADS = (
    'OMP_NUM_THREADS', 'OPENBLAS_NUM_THREADS', 'MKL_NUM_THREADS', 'NUMBA_NUM_THREADS',
    'TBB_NUM_THREADS',
)


def one_thread() -> dict[str, str]:
    """The environment of a measured process."""
    return {**os.environ, **dict.fromkeys(THREADS, '1')}


def processor() -> str:
    """Name of the processor, as the system tells it."""
    try:
        lines = Path('/proc/cpuinfo').read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(':')[2].strip() for line in lines if line.startswith('model name')]
    return names[0] if names else platform.machine()


def load() -> float:
    """Load of the machine: mean number of runnable processes over the last minute."""
    return round(os.getloadavg()[0], 2)


def describe() -> dict[str, object]:
    """Machine, date and load, for the head of a table."""
    now = datetime.datetime.now(datetime.timezone.utc)
    return {
        'processor': processor(),
        'cores': os.cpu_count(),
        'python': platform.python_version(),
        'date': now.strftime('%Y-%m-%d %H:%M UTC'),
        'load_start': load(),
    }
