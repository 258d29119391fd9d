"""GTSAM on one graph: `python gtsam_peer.py JOB.json OUT.json`, needs numpy and gtsam only.

Methods: LM, GN, and GNC with Geman-McClure from the odometry, whose edges are known inliers and
whose thresholds are GTSAM's own at the probability of our default width.

Noise models give GTSAM our objective: kappa |R - R'|_F^2 = 2 kappa angle^2, so a rotation's
precision is 2 kappa; GTSAM's error has the factor 1/2, ours has not.
"""

import json
import sys
import time

import gtsam
import numpy as np

MOST_ITERATIONS = 200
RELATIVE_TOLERANCE = 1e-6
"""Relative change of GTSAM's error that ends a run."""
GIVEN = {'file': 'file', 'odometry': 'own', 'odometry-true-first': 'chained'}
"""Starts read from arrays: the file's vertices; odometry from the origin; odometry of each robot
from its true first pose, which the measurements do not contain."""


class Problem:
    """GTSAM's factors of a graph, its starts, and our cost of its values."""

    def __init__(self, arrays):
        self.a = arrays
        self.d, self.n, self.m = (int(arrays[k]) for k in ('dimension', 'n', 'm'))
        self.graph = gtsam.NonlinearFactorGraph()
        a, d = arrays, self.d
        between = gtsam.BetweenFactorPose2 if d == 2 else gtsam.BetweenFactorPose3
        for e in range(len(a['i'])):
            turn, move = 1 / np.sqrt(2 * a['kappa'][e]), 1 / np.sqrt(a['tau'][e])
            sigmas = [move, move, turn] if d == 2 else [turn] * 3 + [move] * 3
            noise = gtsam.noiseModel.Diagonal.Sigmas(np.array(sigmas))
            measured = self.pose(a['rotation'][e], a['translation'][e])
            self.graph.add(between(int(a['i'][e]), int(a['j'][e]), measured, noise))
        self.add_ranges()
        first = self.pose(a['file_rotation'][0], a['file_translation'][0])
        tight = gtsam.noiseModel.Isotropic.Sigma(3 if d == 2 else 6, 1e-3)
        self.anchored = self.graph.clone()
        (self.anchored.addPriorPose2 if d == 2 else self.anchored.addPriorPose3)(0, first, tight)

    def add_ranges(self):
        a, d = self.a, self.d
        to_pose = gtsam.RangeFactorPose2 if d == 2 else gtsam.RangeFactorPose3
        to_point = gtsam.RangeFactor2D if d == 2 else gtsam.RangeFactor3D
        for e in range(len(a['source'])):
            source, target = int(a['source'][e]), int(a['target'][e])
            if source >= self.n:
                source, target = target, source
            noise = gtsam.noiseModel.Isotropic.Sigma(1, 1 / np.sqrt(a['precision'][e]))
            kind = to_point if target >= self.n else to_pose
            self.graph.add(kind(source, target, float(a['distance'][e]), noise))

    def pose(self, rotation, translation):
        if self.d == 2:
            angle = np.arctan2(rotation[1, 0], rotation[0, 0])
            return gtsam.Pose2(translation[0], translation[1], angle)
        return gtsam.Pose3(gtsam.Rot3(rotation), translation)

    def values(self, kind):
        """Values of all poses from arrays, landmarks around the origin."""
        a, values = self.a, gtsam.Values()
        for k in range(self.n):
            values.insert(k, self.pose(a[kind + '_rotation'][k], a[kind + '_translation'][k]))
        random = np.random.default_rng(0)
        spread = np.std(a[kind + '_translation'])
        for k in range(self.m):
            values.insert(self.n + k, random.normal(0, spread, self.d))
        return values

    def start(self, kind):
        """The start, and the seconds it took GTSAM to compute (0 for a given one)."""
        if kind in GIVEN:
            return self.values(GIVEN[kind]), 0.0, 0.0
        wall, cpu = time.perf_counter(), time.process_time()
        if kind == 'lago':
            values = gtsam.lago.initialize(self.anchored)
        else:
            values = gtsam.InitializePose3.initialize(self.anchored)
        return values, time.perf_counter() - wall, time.process_time() - cpu

    def cost(self, values):
        """Our objective at GTSAM's values, bearings eliminated, no factor 1/2."""
        a, d = self.a, self.d
        if d == 2:
            x = gtsam.utilities.extractPose2(values)
            c, s = np.cos(x[:, 2]), np.sin(x[:, 2])
            R, t = np.stack([np.stack([c, -s], 1), np.stack([s, c], 1)], 1), x[:, :2]
        else:
            x = gtsam.utilities.extractPose3(values)
            R, t = x[:, :9].reshape(-1, 3, 3), x[:, 9:]
        i, j = a['i'], a['j']
        turn = np.sum((R[j] - R[i] @ a['rotation']) ** 2, axis=(1, 2))
        move = t[j] - t[i] - np.einsum('kij,kj->ki', R[i], a['translation'])
        cost = np.sum(a['kappa'] * turn) + np.sum(a['tau'] * np.sum(move**2, axis=1))
        if len(a['source']):
            point = values.atPoint2 if d == 2 else values.atPoint3
            points = np.concatenate(
                [t, np.array([point(self.n + k) for k in range(self.m)]).reshape(-1, d)])
            length = np.linalg.norm(points[a['target']] - points[a['source']], axis=1)
            cost += np.sum(a['precision'] * (length - a['distance']) ** 2)
        return float(cost)


def optimise(problem, start, method):
    """Iterate to RELATIVE_TOLERANCE; the evaluation of our cost does not count as time."""
    kind = 'LevenbergMarquardt' if method == 'LM' else 'GaussNewton'
    params = getattr(gtsam, kind + 'Params')()
    wall, cpu = time.perf_counter(), time.process_time()
    optimizer = getattr(gtsam, kind + 'Optimizer')(problem.anchored, start, params)
    error = optimizer.error()
    seconds, used = time.perf_counter() - wall, time.process_time() - cpu
    trace = [(seconds, problem.cost(start))]
    for _ in range(MOST_ITERATIONS):
        wall, cpu = time.perf_counter(), time.process_time()
        try:
            optimizer.iterate()
        except RuntimeError:
            # GTSAM raises on a singular linear system: the run ends with the last values.
            break
        previous, error = error, optimizer.error()
        seconds += time.perf_counter() - wall
        used += time.process_time() - cpu
        trace.append((seconds, problem.cost(optimizer.values())))
        if not np.isfinite(error) or abs(previous - error) <= RELATIVE_TOLERANCE * error:
            break
    return seconds, used, trace


def reweighted(arrays, job):
    """Figures of GNC: seconds, and rejected edges, false and true ones."""
    problem = Problem(arrays)
    start = problem.values('chained')
    wall, cpu = time.perf_counter(), time.process_time()
    params = gtsam.GncLMParams(gtsam.LevenbergMarquardtParams())
    params.setLossType(gtsam.GncLossType.GM)
    trusted = [*np.flatnonzero(arrays['odometry']).tolist(), problem.anchored.size() - 1]
    params.setKnownInliers(trusted)
    optimizer = gtsam.GncLMOptimizer(problem.anchored, start, params)
    optimizer.setInlierCostThresholdsAtProbability(job['probability'])
    optimizer.optimize()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    weights = np.asarray(optimizer.getWeights())
    rejected = np.flatnonzero(weights[: len(arrays['i'])] < 0.1)
    false = np.isin(rejected, arrays['false'])
    return {
        'wall_s': wall, 'cpu_s': cpu, 'false_rejected': int(false.sum()),
        'true_rejected': int((~false).sum())}


def optimised(arrays, job):
    """Figures of LM or GN, the median of some runs."""
    problem = Problem(arrays)
    runs = []
    for _ in range(job['runs']):
        start, wall, cpu = problem.start(job['start'])
        seconds, used, trace = optimise(problem, start, job['method'])
        runs.append((seconds + wall, used + cpu, [(wall + s, c) for s, c in trace]))
    middle = sorted(runs, key=lambda run: run[0])[len(runs) // 2]
    cost = middle[2][-1][1]
    return {
        'wall_s': middle[0], 'cpu_s': sorted(run[1] for run in runs)[len(runs) // 2],
        'cost': cost, 'trace': middle[2], 'iterations': len(middle[2]) - 1,
        'reached': bool(cost <= (1 + job['tolerance']) * job['best'])}


def main(job_path, out_path):
    with open(job_path) as file:
        job = json.load(file)
    arrays = dict(np.load(job['arrays']))
    figures = (reweighted if job['method'] == 'GNC' else optimised)(arrays, job)
    with open(out_path, 'w') as file:
        json.dump(figures, file)


if __name__ == '__main__':
    main(sys.argv[1], sys.argv[2])
