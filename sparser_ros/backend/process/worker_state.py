"""What the node sees of its two solver processes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class WorkerState:
    """What the worker does right now."""

    pid: int | None
    """Of the tracker process; None while there is none, or in thread mode."""
    auditor_pid: int | None
    """Of the auditor process; None where it has none."""
    busy: bool
    """A solve was asked for and is not answered yet."""
    restarting: bool
    """The tracker process is starting (again); the auditor may still be."""
    auditor_missing: str
    """Why there is no auditor now though one is wanted; '' = it runs, or none is wanted."""
    restarts: int
    """How often one of the processes died or hung and was started again."""
    settled: bool
    """Everything submitted is solved, and audited where that happens by itself."""
    failed: str
    """Why the newest solve or audit failed; '' = it did not."""
    text: str
