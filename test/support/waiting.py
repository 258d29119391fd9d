"""Patience with other processes, on a machine where six more are busy."""

import os
import subprocess
import sys
import time
from pathlib import Path

PATIENCE_S = 300
PACKAGE = Path(__file__).resolve().parents[2] / 'sparser_ros'


def until(condition, what):
    """The first true value of a function; AssertionError says what was waited for in vain."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.01)
    raise AssertionError(f'waited {PATIENCE_S} s for {what}')


def python(*arguments, cwd=None, check=True, **environment):
    """A Python with these arguments that has ended; `check`: without an error."""
    done = subprocess.run(
        [sys.executable, *map(str, arguments)], cwd=cwd, text=True, capture_output=True,
        timeout=PATIENCE_S, env={**os.environ, **environment})
    assert not check or done.returncode == 0, done.stderr
    return done


def _stat(pid):
    """State and parent of a process; a zombie where there is none."""
    try:
        return Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()[:2]
    except OSError:
        return 'Z', '0'


def alive(pid):
    """Whether a process runs, and is no zombie."""
    return _stat(pid)[0] != 'Z'


def parent_of(pid):
    """Its number."""
    return int(_stat(pid)[1])


def logged(process, text):
    """Wait until a `Child` has written so in its log."""
    until(lambda: text in process.tail(100) or process.poll() is not None, text)
    assert process.poll() is None, process.tail()


def ended(process):
    """The exit code of a `Child` once it has ended."""
    until(lambda: process.poll() is not None, 'the end of a process')
    return process.poll()


def compiled_by_dev_run() -> bool:
    """`./dev/run` has compiled all kernels since the package was changed."""
    mark = Path(os.environ.get('NUMBA_CACHE_DIR', '.')) / '.compiled'
    return mark.exists() and mark.stat().st_mtime > max(
        path.stat().st_mtime for path in PACKAGE.rglob('*.py'))
