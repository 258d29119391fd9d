"""Where solver processes come from: forks of a process that has imported everything.

That process is started once, by executing Python anew, so it has none of the node's threads, locks
or DDS sockets; it imports `preloaded` and then does nothing but fork. A solver process needs two
seconds of processor time for its imports otherwise: now one start pays for tracker, auditor, and
every restart. It ends with the node and its last fork.

The fork server inherits environment and output of the moment at which it starts.
"""

from __future__ import annotations

import multiprocessing
from multiprocessing.context import ForkServerContext

_PRELOADED = f'{__package__}.preloaded'


def solver_context() -> ForkServerContext:
    """The multiprocessing context of solver processes.

    The first `start()` of a process waits for the imports. Where they fail there, they are made in
    the process itself, which reports what is wrong.
    """
    context = multiprocessing.get_context('forkserver')
    context.set_forkserver_preload([_PRELOADED])
    return context
