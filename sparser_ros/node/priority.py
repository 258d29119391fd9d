"""Scheduling priority of whole processes: Linux keeps it per thread."""

from __future__ import annotations

import contextlib
import os


def set_niceness(pid: int, niceness: int) -> bool:
    """Set the niceness of every thread of a process; false where the system does not allow it.

    Threads started later inherit it from the one that starts them.
    """
    try:
        threads = [int(name) for name in os.listdir(f'/proc/{pid}/task')]
    except OSError:
        threads = [pid]
    try:
        for thread in threads:
            with contextlib.suppress(ProcessLookupError):
                os.setpriority(os.PRIO_PROCESS, thread, niceness)
    except PermissionError:
        return False
    return True
