"""PyFG text files (`.pyfg`): the factor graphs of range-aided SLAM.

The grammar is PyFactorGraph's and CORA's, read tolerantly: any spacing, blank and # lines,
stamps in seconds or nanoseconds, 0 = no time (a range without time takes that of its pose), any
names. Covariances become scalar weights (`graph/precision.py`). A file without poses, landmarks
with ranges between them, is a sensor network.

Records of our own, written only where the standard ones cannot say it:

    EDGE_RANGE:OFFSET ts A B range variance leverA leverB    antennas off the body origin
    VERTEX_XY:FIX NAME x y            VERTEX_XYZ:FIX NAME x y z      beacon at a known position
    VERTEX_SE2:POSITION ts NAME x y c11 c12 c22 lever                position fix of a pose
    EDGE_SE2:ODOMETRY, EDGE_SE2:LOOP  (and EDGE_SE3:QUAT:…)          where the numbers of the poses
                                      would suggest the other kind
"""

from __future__ import annotations

import json
from pathlib import Path

from ..config import GraphError
from ..graph import Graph
from . import atomic
from .line_records import replace_values
from .pyfg_grammar import grammar_of, sidecar_path
from .pyfg_reader import PyfgReader, long_names
from .pyfg_writer import value_texts, write

__all__ = ['read', 'rewrite_vertices', 'write']


def read(path: Path | str) -> Graph:
    """Read a graph; FormatError with file and line for anything that is not as it must be."""
    return PyfgReader(Path(path)).graph()


def rewrite_vertices(source: Path | str, target: Path | str, graph: Graph) -> None:
    """Copy a file with the values of `graph`, read from it and solved, in its vertex lines."""
    reader = PyfgReader(Path(source))
    original = reader.graph()
    if (original.n_poses, original.n_landmarks) != (graph.n_poses, graph.n_landmarks):
        raise GraphError(f'the graph to write was not read from {source}: it has other variables')
    words = grammar_of(graph.dimension)
    poses, landmarks = value_texts(graph)
    value = {
        name: poses[end] if end >= 0 else landmarks[~end]
        for name, end in reader.endpoint.items()
    }
    tags = {words.pose: (2, 3), words.point: (1, 2)}
    text = '\n'.join(replace_values(source, tags, value)) + '\n'
    names = long_names(Path(source))
    atomic.write_text(target, text)
    if any(names.values()):
        atomic.write_text(sidecar_path(target), json.dumps(names, indent=2) + '\n')
    else:
        sidecar_path(target).unlink(missing_ok=True)
