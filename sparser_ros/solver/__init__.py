"""The SPARSER method: separable quadratic problems on rotations and bearings."""

from .result import SolveResult, SolveStats, SolveStatus
from .solve import solve
from .warm_up import warm_up

__all__ = ['SolveResult', 'SolveStats', 'SolveStatus', 'solve', 'warm_up']
