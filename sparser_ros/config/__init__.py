"""Every default, unit, bound and description, and the errors users see; imports nothing."""

from .backend_config import BackendConfig
from .errors import ConfigError, FormatError, GraphError, SolverError, SparserError
from .node_config import NodeConfig
from .option import FlatOption, OptionInfo, build, check, option, walk
from .solver_config import RobustConfig, SolverConfig
from .sparser import SparserConfig

__all__ = [
    'BackendConfig',
    'ConfigError',
    'FlatOption',
    'FormatError',
    'GraphError',
    'NodeConfig',
    'OptionInfo',
    'RobustConfig',
    'SolverConfig',
    'SolverError',
    'SparserConfig',
    'SparserError',
    'build',
    'check',
    'option',
    'walk',
]
