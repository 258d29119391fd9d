"""A small simulated world for the back-end's tests: robots with odometry, ranges, increments."""

import dataclasses

import numpy as np
from graphs import exponential

from benchmark.synthetic import distances, plain_ranges
from sparser_ros.backend.process import wire
from sparser_ros.backend.session.graph_store import GraphStore
from sparser_ros.backend.session.session import Session
from sparser_ros.config import RobustConfig, SolverConfig
from sparser_ros.config.backend_config import AuditConfig, BackendConfig
from sparser_ros.config.sparser import SparserConfig
from sparser_ros.graph import Estimate, Graph, Increment, Landmarks, Poses, RelativePoses
from sparser_ros.linalg.rotations import angle_to_matrix, rotvec_to_matrix

STEP_NS = 500_000_000
GM = SolverConfig(robust=RobustConfig(kernel='gm'))
ROBUST = SolverConfig(robust=RobustConfig(kernel='gm', gnc=True))
BEACONS = np.array([[6.0, 1.0, 0.0], [-2.0, 7.0, 4.0], [4.0, -6.0, 1.0], [9.0, 8.0, 5.0]])
MARKS = np.array([[3, 7, 2], [-4, 1, -3], [6, -3, 1], [0, -6, -2]], float)


def carried(value):
    """A dataclass as it comes out of the pipe."""
    return wire.decode(wire.message('test', value)).body


def same(a, b):
    """Deep equality of dataclasses with arrays."""
    if dataclasses.is_dataclass(a):
        return type(a) is type(b) and all(
            same(getattr(a, f.name), getattr(b, f.name)) for f in dataclasses.fields(a))
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.dtype.kind == 'f')
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    return a == b


def config(dimension=2, robots=('A', 'B'), solver=None, **backend):
    """A configuration with back-end options given by name."""
    return SparserConfig(
        dimension=dimension, robots=list(robots), solver=solver or SolverConfig(),
        backend=BackendConfig(**backend))


def path(kind, steps, start, seed, dimension=2):
    """True rotations and translations of one robot: 'still', 'straight' or 'curved'."""
    rng = np.random.default_rng(seed)
    speed = {'still': 0.0, 'straight': 0.5, 'curved': 0.5}[kind]
    if dimension == 2:
        turns = 0.25 * np.sin(np.arange(steps) / 6 + seed) if kind == 'curved' else np.zeros(steps)
        rotation = angle_to_matrix(rng.uniform(-3, 3) + np.cumsum(turns))
    else:
        rates = 0.2 * rng.normal(size=(steps, 3)) if kind == 'curved' else np.zeros((steps, 3))
        rotation = np.empty((steps, 3, 3))
        rotation[0] = rotvec_to_matrix(rng.normal(size=3))
        turns = rotvec_to_matrix(rates)
        for k in range(1, steps):
            rotation[k] = rotation[k - 1] @ turns[k]
    forward = np.zeros(dimension)
    forward[0] = speed
    moves = rotation[:-1] @ forward
    translation = np.concatenate([np.zeros((1, dimension)), np.cumsum(moves, axis=0)])
    return rotation, translation + np.asarray(start, dtype=float)


def added_up(turns, moves):
    """Relative poses (n, d, d) and (n, d), and the odometry frame that they add up to."""
    frames, places = [np.eye(moves.shape[1])], [np.zeros(moves.shape[1])]
    for turn, move in zip(turns, moves, strict=True):
        places.append(places[-1] + frames[-1] @ move)
        frames.append(frames[-1] @ turn)
    return turns, moves, np.array(frames), np.array(places)


class World:
    """True trajectories of robots and positions of beacons; gives noisy increments."""

    def __init__(
        self, kinds, starts, beacons=None, steps=40, seed=0, range_sigma=0.05, dimension=2,
        known=(), pairs=None,
    ):
        self.dimension, self.steps, self.range_sigma = dimension, steps, range_sigma
        self.names = tuple('ABCDEFG'[:len(kinds)])
        self.rng = np.random.default_rng(seed)
        self.paths = [
            path(kind, steps, start, seed + k, dimension)
            for k, (kind, start) in enumerate(zip(kinds, starts, strict=True))]
        self.beacons = np.zeros((0, dimension)) if beacons is None else np.array(beacons, float)
        self.known = set(known)
        robots = range(len(kinds))
        self.pairs = [(a, b) for a in robots for b in robots if a < b] if pairs is None else pairs
        self.truth = Estimate(
            *(np.stack([self.paths[n][part][k] for k in range(steps) for n in robots])
              for part in (0, 1)), self.beacons.copy())
        self.odometry = [self._odometry(*one) for one in self.paths]

    def _odometry(self, rotation, translation):
        d, n = self.dimension, self.steps
        relative_r = np.swapaxes(rotation[:-1], 1, 2) @ rotation[1:]
        relative_t = np.einsum(
            'kji,kj->ki', rotation[:-1], np.diff(translation, axis=0))
        moving = np.linalg.norm(relative_t, axis=1, keepdims=True) > 0
        relative_t = relative_t + 0.005 * self.rng.normal(size=relative_t.shape) * moving
        noise = 0.002 * self.rng.normal(size=(n - 1, 1 if d == 2 else 3)) * moving
        return added_up(relative_r @ exponential(noise), relative_t)

    def row(self, robot, step):
        return step * len(self.names) + robot

    def increment(self, sequence, first, last, every=1):
        """Steps first..last-1; beacons come with the first increment."""
        robots, d = len(self.names), self.dimension
        step = np.repeat(np.arange(first, last), robots)
        robot = np.tile(np.arange(robots), last - first)
        turns, moves, frames, places = map(np.stack, zip(*self.odometry, strict=True))
        poses = Poses(robot, step, 1_000_000_000 + step * STEP_NS, frames[robot, step],
                      places[robot, step])
        driven = np.flatnonzero(step)
        end, before = self.row(robot, step)[driven], (robot[driven], step[driven] - 1)
        relative = RelativePoses(
            end - robots, end, turns[before], moves[before], np.full(len(end), 1 / 0.004**2),
            np.full(len(end), 1 / 0.01**2), np.ones(len(end), dtype=bool),
            np.zeros(len(end), dtype=np.int64))
        fresh = np.arange(len(self.beacons)) if first == 0 else np.zeros(0, dtype=int)
        fixed = np.array([k in self.known for k in fresh], dtype=bool)
        position = np.full((len(fresh), d), np.nan)
        position[fixed] = self.beacons[fresh[fixed]]
        return Increment(
            sequence, self.names, poses,
            Landmarks(tuple(f'L{k}' for k in fresh), position, fixed), relative,
            self._ranges(first, last, every),
            newest_stamp_ns=1_000_000_000 + (last - 1) * STEP_NS)

    def _ranges(self, first, last, every):
        ends = [
            (self.row(a, k), self.row(b, k))
            for k in range(first, last) if k % every == 0 for a, b in self.pairs]
        ends += [
            (self.row(n, k), ~b) for k in range(first, last) if k % every == 0
            for n in range(len(self.names)) for b in range(len(self.beacons))]
        source = np.array([a for a, _ in ends], dtype=np.int64)
        target = np.array([b for _, b in ends], dtype=np.int64)
        distance = distances(self.truth.translation, self.truth.landmarks, source, target)
        distance = np.abs(distance + self.range_sigma * self.rng.normal(size=len(ends))) + 1e-6
        return plain_ranges(
            self.dimension, source, target, distance, 1 / max(self.range_sigma, 0.01)**2)

    def increments(self, count, every=1):
        """The whole run in `count` increments."""
        edges = np.linspace(0, self.steps, count + 1).astype(int)
        return [
            self.increment(k, int(edges[k]), int(edges[k + 1]), every) for k in range(count)]

    def graph(self, parts=1, every=1) -> Graph:
        """All data of the run."""
        return graph_of(self.increments(parts, every), self.dimension)

    def add_up_odometry(self):
        """The odometry frames anew, once turns or moves are changed."""
        self.odometry = [added_up(turns, moves) for turns, moves, *_ in self.odometry]

    def true_in_map(self):
        """The truth in the frame whose origin is the first robot's first pose."""
        turn = self.truth.rotation[0].T
        return self.truth.moved(turn, -turn @ self.truth.translation[0])

    def errors_in_map(self, solution):
        """(n,): errors of positions in a map whose origin is the first robot's first pose."""
        place = solution.estimate.translation
        return np.linalg.norm(place - self.true_in_map().translation[:len(place)], axis=1)

    def map_error_m(self, estimate):
        """Root mean square error of all positions, in a map that known beacons fix."""
        error = estimate.translation - self.truth.translation[:len(estimate.translation)]
        return float(np.sqrt(np.mean(np.sum(error**2, axis=1))))


def pair_world(dimension=2, seed=3, known=range(4), kind='curved', robots=2, **options):
    """Two robots, or one, among four beacons."""
    return World(
        [kind] * robots, [np.zeros(dimension), np.full(dimension, 2.0)][:robots],
        BEACONS[:, :dimension], seed=seed, known=known, dimension=dimension, **options)


def two_robots(beacons=4, kind='curved', dimension=2, **options):
    """Two robots among some of four beacons."""
    return World([kind, kind], np.array([[0, 0, 0], [5, 2, 1]])[:, :dimension],
                 MARKS[:beacons, :dimension], dimension=dimension, **options)


def filled(part, increments):
    """A store, session, tracker or auditor with the increments added."""
    for one in increments:
        part.add(one)
    return part


def ticks(session, increments, full=None):
    """The solutions after each of the increments."""
    return [filled(session, [one]).solve(full) for one in increments]


def lived(world, parts=4, solver=GM, **backend):
    """(session, last solution), solved after each of the increments."""
    session = Session(config(world.dimension, world.names, solver, **backend))
    return session, ticks(session, world.increments(parts))[-1]


def heard(increments, growth=1.25, **backend):
    """(session, solutions after each increment), audited as the data grow by a factor."""
    session = Session(config(solver=ROBUST, audit=AuditConfig(growth=growth), **backend))
    return session, ticks(session, increments)


def in_force(session):
    """All data of a session, under what its last audit has decided of them."""
    return session.auditor._store.now


def longer(data, metres):
    """An increment or a graph with ranges that are longer, by as much or by one length each."""
    return data.replaced(ranges=data.ranges.replaced(distance_m=data.ranges.distance_m + metres))


def with_false_ranges(increments, share, seed=0, metres=(2, 20)):
    """Increments in which a share of the ranges is too long; and which, by row of the graph."""
    rng, made, false = np.random.default_rng(seed), [], []
    for one in increments:
        false.append(rng.random(len(one.ranges)) < share)
        made.append(longer(one, false[-1] * rng.uniform(*metres, len(one.ranges))))
    return made, np.flatnonzero(np.concatenate(false))


def of_robot(ranges, robot, robots=2, begin=0, end=np.inf):
    """(k,): whether the range is one of that robot, from step `begin` on and before `end`."""
    ends = np.stack([ranges.source, ranges.target])
    step = np.max(ends, axis=0) // robots
    return np.any((ends >= 0) & (ends % robots == robot), axis=0) & (begin <= step) & (step < end)


def graph_of(increments, dimension=2) -> Graph:
    return filled(GraphStore(dimension), increments).graph
