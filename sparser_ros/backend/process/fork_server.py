"""Where solver processes come from: forks of a process that has imported everything.

That process is started once, by executing Python anew, so it has none of the node's threads, locks
or DDS sockets; it imports `preloaded` and then does nothing but fork. A solver process needs two
seconds of processor time for its imports otherwise: now one start pays for tracker, auditor, and
every restart. It ends with the node and its last fork.

The fork server inherits environment and output of the moment at which it starts.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext, SpawnContext

_PRELOADED = f'{__package__}.preloaded'
_TRIED = 2
"""Failed starts in a row, after which a process imports everything by itself."""


def solver_context(failures: int) -> ForkServerContext | SpawnContext:
    """The multiprocessing context of a solver process, after so many failed starts in a row.

    The first `start()` waits for the imports. Where one of them fails, it is tried again in the
    process itself, which reports what is wrong.
    """
    if failures >= _TRIED:
        return multiprocessing.get_context('spawn')
    context = multiprocessing.get_context('forkserver')
    context.set_forkserver_preload([_PRELOADED])
    return context


def kill() -> None:
    """End a fork server that does not answer; `start()` raises then, and the next one is new."""
    pid = getattr(getattr(forkserver, '_forkserver', None), '_forkserver_pid', None)
    if pid is not None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
