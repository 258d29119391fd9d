"""The benchmarks of bounded graphs, on minutes of data."""

import json

import numpy as np

from benchmark import days, thinning
from sparser_ros.config.simulation_config import SimulationConfig
from sparser_ros.frontend.samples import OdometrySample, RangeSample
from sparser_ros.io.simulation import Simulation


def test_thinned_maps_stand_beside_the_whole_one(tmp_path):
    thinning.main(['--hours', '0.1', '--robots', '2', '--seeds', '1', '--counts', '0', '150',
                   '--out', str(tmp_path)])
    whole, thin = json.loads((tmp_path / 'thinning.json').read_text())['rows']
    assert whole['thinnings'] == 0 < thin['thinnings']
    # What the newest two minutes hold stays.
    assert thin['keyframes'] < 0.5 * whole['keyframes']
    assert 0 < thin['recent_m'] < 0.5 and 0 < thin['beacons_m'] < 0.5


def test_messages_come_in_order_with_all_that_was_measured():
    run = Simulation(SimulationConfig(robots=2, minutes=0.5, truth_rate=0.0))
    samples = list(days.samples_of(run))
    assert np.all(np.diff([one.stamp_ns for one in samples]) >= 0)
    odometry = sum(isinstance(one, OdometrySample) for one in samples)
    assert odometry == sum(len(track.stamp_ns) for track in run.tracks)
    assert len(samples) - odometry == len(run.exchanges.stamp_ns) == sum(
        isinstance(one, RangeSample) for one in samples)
