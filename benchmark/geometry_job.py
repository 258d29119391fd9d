"""One run of the geometry study: solve growing prefixes from scratch, judge, compare with truth.

The judgement is the auditor's: other placements that fit about as well are solved too.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from sparser_ros.backend.integrity.noise import Noise
from sparser_ros.backend.observability.observability import Observability, observe
from sparser_ros.backend.session.contest import Contest
from sparser_ros.backend.session.frame import Frame, frame_of
from sparser_ros.backend.session.gauge import at_origin
from sparser_ros.backend.session.judgement import seen_in
from sparser_ros.backend.session.runner import run_from_scratch
from sparser_ros.backend.session.solution import Location
from sparser_ros.config import RobustConfig, SolverConfig
from sparser_ros.config.backend_config import BackendConfig
from sparser_ros.config.sparser import SparserConfig
from sparser_ros.graph import Estimate, Graph
from sparser_ros.linalg.rotations import nearest_rotation

from .geometry_world import Field

CONFIG = BackendConfig()
STANDS_M = 1.0
"""A path within this has no heading: its first pose is the frame."""
SOLVER = SolverConfig(robust=RobustConfig(kernel='gm', gnc=True))


@dataclass(frozen=True)
class Outcome:
    """One robot at one instant."""

    robot: str
    second: float
    located: bool
    verdict: str
    error_m: float
    """Of the newest position."""
    due: bool
    """Whether the truth, with false ranges known, would be judged located."""
    gap: float
    seconds: float
    """CPU time of the judgement, with solves from better placements."""
    missing: str


def outcomes(field: Field, second: float, seed: int = 0) -> list[Outcome]:
    """Verdicts on all robots after so many seconds of the run."""
    now = field.until(second)
    frame = frame_of(now.graph, _sparser(now.graph))
    if frame is None:
        return []
    truth = now.truth
    if frame.gauge is not None:
        truth = at_origin(truth, int(frame.segments.first[frame.gauge]), (np.eye(2), np.zeros(2)))
    oracle = _observed(frame, truth, {
        'ranges': np.where(now.false, 0.0, 1.0), 'sightings': np.where(now.mistaken, 0.0, 1.0)})
    contest = _from_scratch(frame, truth, seed)
    begin = time.process_time()
    seen = seen_in(contest, _sparser(now.graph), Noise())
    cpu = time.process_time() - begin
    found = contest.best.whole
    truth = _aligned(frame, truth, found)
    result = []
    for segment, row in enumerate(frame.segments.last.tolist()):
        if not frame.mask[segment]:
            continue
        where = seen.location[segment]
        result.append(Outcome(
            frame.graph.robots[frame.segments.robot[segment]], second,
            where is Location.LOCATED, where.value,
            float(np.linalg.norm(found.translation[row] - truth.translation[row])),
            oracle.location[segment] is Location.LOCATED, seen.gap, cpu,
            seen.missing[segment]))
    return result


def _aligned(frame: Frame, truth: Estimate, found: Estimate) -> Estimate:
    """The truth in the frame of the gauge robot's path; as it is where absolute data fix it."""
    if frame.gauge is None:
        return truth
    rows = frame.segments.of_pose == frame.gauge
    here, there = truth.translation[rows], found.translation[rows]
    if np.max(np.ptp(here, axis=0)) < STANDS_M:
        return truth
    offset = here - np.mean(here, axis=0)
    turn = nearest_rotation(((there - np.mean(there, axis=0)).T @ offset)[None])[0]
    return truth.moved(turn, np.mean(there, axis=0) - turn @ np.mean(here, axis=0))


def _observed(
    frame: Frame, estimate: Estimate, weights: dict[str, np.ndarray]
) -> Observability:
    return observe(
        frame.graph, estimate, frame.segments, frame.gauge, CONFIG.observability, weights,
        rejected_weight=CONFIG.rejected_weight)


def _from_scratch(frame: Frame, truth: Estimate, seed: int) -> Contest:
    """A robust solve from scratch in map, as the auditor enters it.

    What is not connected to map has no place in it; its values are true ones, and are not judged.
    """
    config = _sparser(frame.graph)
    contest = Contest(frame, truth, (np.eye(2), np.zeros(2)), config)
    contest.add('scratch', run_from_scratch(frame.subgraph.graph, config, seed))
    return contest


def _sparser(graph: Graph) -> SparserConfig:
    return SparserConfig(robots=list(graph.robots), backend=CONFIG, solver=SOLVER)
