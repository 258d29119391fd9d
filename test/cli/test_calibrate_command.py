"""`sparser calibrate` from the command line: table, YAML, pictures, messages."""

import pytest
from radio_world import radio_world
from report_paths import reported

from sparser_ros.config import SparserConfig
from sparser_ros.graph import with_estimate
from sparser_ros.io import pyfg


@pytest.fixture(scope='module')
def files(tmp_path_factory):
    """(measured graph, reference graph, the world) of biased radios."""
    folder = tmp_path_factory.mktemp('radios')
    world = radio_world(8, sigma_factor=1.0, steps=120)
    marks = world.measured.landmarks
    # A file has no unknown places: all vertices are at the origin.
    pyfg.write(folder / 'measured.pyfg', world.measured.replaced(
        landmarks=type(marks)(marks.names, 0 * world.truth.landmarks, marks.fixed)))
    pyfg.write(folder / 'truth.pyfg', with_estimate(world.measured, world.truth))
    return folder / 'measured.pyfg', folder / 'truth.pyfg', world


@pytest.mark.parametrize('with_truth', [False, True])
def test_biases_go_to_yaml_and_report(tmp_path, files, capsys, with_truth):
    measured, truth, world = files
    options = ['--truth', truth] if with_truth else []
    whole = reported(tmp_path, 'calibrate', measured, *options, '-o', tmp_path / 'r.yaml')
    shown = capsys.readouterr().out
    assert 'calibration: applied' in shown and 'radio L0: bias' in shown
    _, told = shown.split(f"written: {tmp_path / 'r.yaml'}\n")
    assert told.startswith('  bias_m of A, B, C, L0, L1, L2, L3, L4, L5\n  range_sigma_m of A, B')
    assert '  lever_arm as configured\n' in told
    assert f"written: {tmp_path / 'calibrate.json'}" in told
    specs = SparserConfig.from_yaml(tmp_path / 'r.yaml').radio_specs()
    assert not any(row['significant'] for row in whole['lever_arms'])
    assert shown.count('agrees with the configuration') == 3
    rows = {row['name']: row for row in whole['calibration']['radios']}
    assert len(rows) == 9 and len(whole['calibration']['pairs']) == 21
    near = [name for name, row in rows.items() if abs(row['bias_m']) <= row['bias_sigma_m']]
    assert not near or f'standard deviation): bias_m of {", ".join(near)}\n' in told
    assert shown.count(' (not significant), sigma') == sum(
        rows[name]['determined'] for name in near)
    for name, bias_m in zip(sorted(rows), world.bias_m, strict=True):
        assert abs(specs[name].bias_m - bias_m) < 3.5 * rows[name]['bias_sigma_m'] < 0.5
