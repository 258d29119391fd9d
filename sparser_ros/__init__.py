"""Range-aided multi-robot SLAM back-end: the SPARSER method for files, bags and ROS 2."""

from importlib import import_module
from pkgutil import extend_path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .config.solver_config import RobustConfig, SolverConfig
    from .graph.graph import Graph
    from .solved_graph import SolvedGraph, read, solve

# The generated `sparser_ros.msg` lives in the installed copy of this package; extending the
# path lets a source checkout and the installed messages be one package.
__path__ = extend_path(__path__, __name__)

__version__ = '0.1.0'

__all__ = ['Graph', 'RobustConfig', 'SolvedGraph', 'SolverConfig', 'read', 'solve']

_HOMES = {
    'Graph': 'graph', 'RobustConfig': 'config', 'SolverConfig': 'config',
    'SolvedGraph': 'solved_graph', 'read': 'solved_graph', 'solve': 'solved_graph'}


def __getattr__(name: str) -> Any:
    """The public names, imported when they are used: `import sparser_ros` itself costs nothing."""
    if name not in _HOMES:
        raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
    return getattr(import_module(f'{__name__}.{_HOMES[name]}'), name)
