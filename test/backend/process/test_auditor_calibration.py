"""Radios calibrated in the auditor of a running worker: told with the verdicts, or applied."""

import dataclasses
import time

import pytest
from backend_world import World, config, longer, of_robot

from sparser_ros.backend.integrity.radio_errors import BIAS
from sparser_ros.backend.process import solver_process
from sparser_ros.backend.process.worker import SolverWorker
from sparser_ros.config.backend_config import AuditConfig, IntegrityConfig
from sparser_ros.config.calibration_config import CalibrationConfig
from sparser_ros.config.solver_config import LiveSolverConfig

BIAS_M, PATIENCE_S = 0.4, 300
BEACONS = [(30, 0), (9, 28), (-24, 17), (-23, -18), (10, -27), (-3, 4)]


def increments(count):
    """Three robots among known beacons; robot B's ranges are too long."""
    world = World(['curved'] * 3, [(-8, 0), (8, 3), (0, 9)], BEACONS, steps=120, range_sigma=0.1,
                  known=range(6))
    for one in world.increments(count):
        yield longer(one, BIAS_M * of_robot(one.ranges, 1, 3))


@pytest.mark.timeout(2 * PATIENCE_S)
def test_a_bias_is_told_with_a_verdict_and_taken_off(monkeypatch):
    monkeypatch.setattr(solver_process, '_REST_OF_CALIBRATION', 0.0)
    options = dataclasses.replace(
        config(robots=('A', 'B', 'C'), solver=LiveSolverConfig(), worker='thread',
               audit=AuditConfig(period_s=0.0),
               # Else the bias is taken off as a fault, without a calibration.
               integrity=IntegrityConfig(doubt_ranges=False)),
        calibration=CalibrationConfig(live=True, mode='apply'))
    found, end = {}, time.monotonic() + PATIENCE_S
    with SolverWorker(options) as worker:
        costs = []
        for one in increments(4):
            worker.submit(one)
        while time.monotonic() < end and ('B' not in found or costs[-1] > 0.7 * costs[0]):
            request = worker.request_solve(full=True)
            while not worker.answered(request) and time.monotonic() < end:
                worker.poll()
                time.sleep(0.01)
            found = {one.subject: one for one in worker.newest.findings if one.kind == BIAS}
            costs.append(worker.newest.stats.cost_robust or worker.newest.stats.cost_final)
            # An audit that is asked for comes before the steps of the calibration.
            time.sleep(0.5)
    assert found['B'].value == pytest.approx(BIAS_M, abs=0.1)
    assert 'too long' in found['B'].text and 'that is taken off' in found['B'].text
    assert costs[-1] < 0.7 * costs[0]
