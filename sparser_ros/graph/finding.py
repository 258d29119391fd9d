"""Findings: faults of sources of data, in words and as numbers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """One fault of one source; plain values, so that any codec can write it."""

    kind: str
    """The rule, such as 'odometry_jump' or 'radio_clock'; values of equal kinds are comparable."""
    subject: str
    """The culprit: a robot, radio, pair of radios, beacon, detector or topic."""
    text: str
    """One sentence for the operator, which names the subject: 'the odometry of B jumped by …'."""
    value: float = float('nan')
    """Size of the fault in `unit`; NaN = it has none."""
    unit: str = ''

    @property
    def subjects(self) -> tuple[str, ...]:
        """The culprits: those of a pair, 'A and B', each."""
        return tuple(self.subject.split(' and '))
