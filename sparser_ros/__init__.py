"""Range-aided multi-robot SLAM back-end: the SPARSER method for files, bags, logs and ROS 2.

    read(PATH)                    the graph in a .pyfg or .g2o file
    from_logs(odometry, ranges)   a graph from arrays of t, x, y, yaw and of t, anchor, distance
    Graph.builder()               a graph from one measurement after another, or arrays of them
    solve(graph)                  its solution: trajectories, beacons, covariances, what is wrong
    replay(BAG, CONFIG)           a ROS 2 bag as the node would solve it, without ROS

Metres, radians and seconds throughout; d is 2 in the plane and 3 in space. All errors are
SparserErrors whose text says what to do; what is doubtful comes as a SolveWarning.
"""

from importlib import import_module
from pkgutil import extend_path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .config.errors import SolveWarning, SparserError
    from .config.solver_config import RobustConfig, SolverConfig
    from .config.sparser import SparserConfig
    from .frontend.logs import from_logs
    from .graph.graph import Graph
    from .solved_graph import SolvedGraph, read, replay, solve

# The generated `sparser_ros.msg` lives in the installed copy of this package; extending the
# path lets a source checkout and the installed messages be one package.
__path__ = extend_path(__path__, __name__)

__version__ = '0.1.0'

_HOMES = {
    'Graph': 'graph', 'RobustConfig': 'config', 'SolveWarning': 'config.errors',
    'SolvedGraph': 'solved_graph', 'SolverConfig': 'config', 'SparserConfig': 'config',
    'SparserError': 'config', 'from_logs': 'frontend.logs', 'read': 'solved_graph',
    'replay': 'solved_graph', 'solve': 'solved_graph'}

__all__ = [
    'Graph', 'RobustConfig', 'SolveWarning', 'SolvedGraph', 'SolverConfig', 'SparserConfig',
    'SparserError', 'from_logs', 'read', 'replay', 'solve']


def __getattr__(name: str) -> Any:
    """The public names, imported when they are used: `import sparser_ros` itself costs nothing."""
    if name not in _HOMES:
        raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
    return getattr(import_module(f'{__name__}.{_HOMES[name]}'), name)


def __dir__() -> list[str]:
    """With them, for `help` and completion."""
    return sorted({*globals(), *__all__})
