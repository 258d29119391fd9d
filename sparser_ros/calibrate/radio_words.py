"""Words for what a calibration finds of antennas and clocks."""

from __future__ import annotations

_DIRECTIONS = (
    ('further ahead', 'further back'), ('further left', 'further right'), ('higher', 'lower'))
"""Along the axes of a robot (REP 103), positive and negative."""


def moved(axis: int, error_m: float) -> str:
    """Where an antenna is whose lever arm lacks `error_m` along an axis of its robot."""
    return _DIRECTIONS[axis][error_m < 0]


def antenna_moved(robot: str, axis: int, error_m: float) -> str:
    """The same as a sentence."""
    return (f'the antenna of {robot} is {abs(error_m):.2f} m {moved(axis, error_m)} '
            'than its lever_arm says')


def lateness(late_s: float) -> str:
    """How late stamps are, or how early."""
    return f'{abs(late_s):.2f} s {"late" if late_s > 0 else "early"}'
