"""The benchmarks of bounded graphs, on minutes of data."""

import json

from benchmark import thinning


def test_thinned_maps_stand_beside_the_whole_one(tmp_path):
    thinning.main(['--hours', '0.1', '--robots', '2', '--seeds', '1', '--counts', '0', '150',
                   '--out', str(tmp_path)])
    whole, thin = json.loads((tmp_path / 'thinning.json').read_text())['rows']
    assert whole['thinnings'] == 0 < thin['thinnings']
    # What the newest two minutes hold stays.
    assert thin['keyframes'] < 0.5 * whole['keyframes']
    assert 0 < thin['recent_m'] < 0.5 and 0 < thin['beacons_m'] < 0.5
