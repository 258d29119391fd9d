"""Every default, unit, bound and description, and the errors users see; imports nothing."""

from .errors import ConfigError, FormatError, GraphError, SolverError, SparserError
from .option import FlatOption, OptionInfo, build, check, option, section, walk
from .solver import RobustConfig, SolverConfig

__all__ = [
    'ConfigError',
    'FlatOption',
    'FormatError',
    'GraphError',
    'OptionInfo',
    'RobustConfig',
    'SolverConfig',
    'SolverError',
    'SparserError',
    'build',
    'check',
    'option',
    'section',
    'walk',
]
