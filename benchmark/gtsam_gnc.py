"""GTSAM's GNC on one graph: `python gtsam_gnc.py JOB.json OUT.json`, needs numpy and gtsam only.

Odometry edges are known inliers, the start is the odometry, the loss is Geman-McClure, inlier
thresholds are GTSAM's own at the probability of our default width.
"""

import json
import sys
import time

import gtsam
import numpy as np
from gtsam_peer import Problem


def main(job_path, out_path):
    with open(job_path) as file:
        job = json.load(file)
    arrays = dict(np.load(job['arrays']))
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
    with open(out_path, 'w') as file:
        json.dump({
            'wall_s': wall, 'cpu_s': cpu, 'false_rejected': int(false.sum()),
            'true_rejected': int((~false).sum())}, file)


if __name__ == '__main__':
    main(sys.argv[1], sys.argv[2])
