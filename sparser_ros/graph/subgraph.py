"""Some variables of a graph as a graph of its own, and the way back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..array_types import Index, Mask
from . import Estimate, Graph, Landmarks, Table, is_landmark


@dataclass(frozen=True)
class Subgraph:
    """The chosen variables and the measurements among them."""

    graph: Graph
    poses: Index
    """Rows of its poses in the whole graph."""
    landmarks: Index
    rows: dict[str, Index]
    """Rows of its measurements in the whole graph's tables."""

    def of(self, estimate: Estimate) -> Estimate:
        """The subgraph's share of an estimate of the whole graph."""
        return Estimate(
            estimate.rotation[self.poses], estimate.translation[self.poses],
            estimate.landmarks[self.landmarks])

    def into(self, whole: Estimate, own: Estimate) -> Estimate:
        """The whole estimate with the subgraph's values replaced."""
        rotation, translation = whole.rotation.copy(), whole.translation.copy()
        landmarks = whole.landmarks.copy()
        rotation[self.poses], translation[self.poses] = own.rotation, own.translation
        landmarks[self.landmarks] = own.landmarks
        return Estimate(rotation, translation, landmarks)


def extract(graph: Graph, poses: Mask, landmarks: Mask) -> Subgraph:
    """The masked poses and landmarks and all measurements among them."""
    pose_rows, landmark_rows = np.flatnonzero(poses), np.flatnonzero(landmarks)
    if len(pose_rows) == graph.n_poses and len(landmark_rows) == graph.n_landmarks:
        every = {name: np.arange(len(table)) for name, table in graph.tables().items()}
        return Subgraph(graph, pose_rows, landmark_rows, every)
    new_pose = np.full(graph.n_poses + 1, -1, dtype=np.int64)
    new_pose[pose_rows] = np.arange(len(pose_rows))
    new_landmark = np.full(graph.n_landmarks + 1, -1, dtype=np.int64)
    new_landmark[landmark_rows] = np.arange(len(landmark_rows))

    def renumber(endpoint: Index) -> tuple[Index, Mask]:
        far = is_landmark(endpoint)
        pose = new_pose[np.where(far, -1, endpoint)]
        landmark = new_landmark[np.where(far, ~endpoint, -1)]
        return np.where(far, ~landmark, pose), np.where(far, landmark, pose) >= 0

    tables: dict[str, Table] = {}
    rows: dict[str, Index] = {}
    for name, table in graph.tables().items():
        keep = np.ones(len(table), dtype=bool)
        columns = {}
        for column in table.endpoints():
            columns[column], known = renumber(getattr(table, column))
            keep &= known
        rows[name] = np.flatnonzero(keep)
        tables[name] = table.replaced(**columns).take(rows[name])
    old = graph.landmarks
    chosen = graph.replaced(
        poses=graph.poses.take(pose_rows),
        landmarks=Landmarks(
            tuple(old.names[k] for k in landmark_rows), old.position[landmark_rows],
            old.fixed[landmark_rows]),
        **tables,
    )
    return Subgraph(chosen, pose_rows, landmark_rows, rows)
