"""Words for what a calibration finds of antennas and clocks."""

from __future__ import annotations

import math
from collections.abc import Iterable

PLAUSIBLE_M = 1.5
"""An antenna is seldom further than this from where it is configured: most robots are smaller.
What else bends a map in the same way is likelier then."""
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


def doubt(error_m: Iterable[float]) -> str:
    """What is likelier than an antenna that is so far off, (d,) metres; empty if it may well be."""
    if math.hypot(*error_m) <= PLAUSIBLE_M:
        return ''
    return (f'more than {PLAUSIBLE_M:g} m off is doubtful, unless the robot is that large: '
            'late stamps, a wrong position of a beacon, a radio named for another robot or wrong '
            'odometry are likelier')


def lateness(late_s: float) -> str:
    """How late stamps are, or how early."""
    return f'{abs(late_s):.2f} s {"late" if late_s > 0 else "early"}'


def either_words(robot: str, late_s: float, axis: int, error_m: float) -> str:
    """A robot whose stamps are off, or its antenna along an axis: the data do not tell which."""
    doubted = doubt([error_m])
    return (f'stamps of ranges of {robot} are {lateness(late_s)}, or its antenna is '
            f'{abs(error_m):.2f} m {moved(axis, error_m)} than its lever_arm says'
            + (f' ({doubted})' if doubted else ': drive at different speeds to tell'))
