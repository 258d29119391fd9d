"""g2o text files (`.g2o`): pose graphs with landmarks, priors and ranges.

The entries are information matrices; weights come from the inverses of their diagonal blocks
(SE-Sync's choice). The rotation entries are read as information of the rotation vector, as
SE-Sync and GTSAM do, although g2o itself means the vector part of a quaternion.

Ids with letters in their top bytes are keys of GTSAM (as Kimera, LAMP and JRL write them): each
letter is a robot. Poses are numbered in the order of their ids, and edges between a robot's
neighbours in that order are odometry, written forwards or backwards. Lines of kinds that are not
needed are left out, and a missing information matrix is the identity; `Graph.remarks` tells it.
A lone FIX of a pose only chooses the frame, so it is left out; a FIX of a landmark
makes it a known beacon.
"""

from __future__ import annotations

from pathlib import Path

from ..config import GraphError
from ..graph import Graph
from . import atomic
from .g2o_reader import USAGE, G2oReader
from .g2o_writer import value_texts, write
from .line_records import read_lines, replace_values

__all__ = ['read', 'rewrite_vertices', 'write']


def read(path: Path | str) -> Graph:
    """Read a graph; FormatError with file and line for anything that is not as it must be."""
    return G2oReader(Path(path)).graph()


def rewrite_vertices(source: Path | str, target: Path | str, graph: Graph) -> None:
    """Copy a file with the values of `graph`, read from it and solved, in its vertex lines.

    Vertices that the file lacks are put before its first line.
    """
    reader = G2oReader(Path(source))
    original = reader.graph()
    if (original.n_poses, original.n_landmarks) != (graph.n_poses, graph.n_landmarks):
        raise GraphError(f'the graph to write was not read from {source}: it has other variables')
    poses, landmarks = value_texts(graph)
    pose_tag, point_tag = (USAGE[graph.dimension][k].split()[0] for k in (0, 1))
    value, missing = {}, set(reader.endpoint)
    for words in map(str.split, read_lines(Path(source))):
        if words and words[0] in (pose_tag, point_tag):
            # Ids may be written in several ways, such as 007.
            end = reader.endpoint[int(words[1])]
            value[words[1]] = poses[end] if end >= 0 else landmarks[~end]
            missing.discard(int(words[1]))
    lines = [
        f'{pose_tag} {k} {poses[end]}' if end >= 0 else f'{point_tag} {k} {landmarks[~end]}'
        for k, end in reader.endpoint.items() if k in missing]
    lines += replace_values(source, {pose_tag: (1, 2), point_tag: (1, 2)}, value)
    atomic.write_text(target, '\n'.join(lines) + '\n')
