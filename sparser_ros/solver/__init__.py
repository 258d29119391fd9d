"""The SPARSER method: separable quadratic problems on rotations and bearings."""

from .result import SolveResult, SolveStats, SolveStatus
from .solve import solve, solve_checked

__all__ = ['SolveResult', 'SolveStats', 'SolveStatus', 'solve', 'solve_checked']
