"""The sweep of the solver's numbers: every one has a case that reads it, and ratios are right."""

import json
from pathlib import Path

from benchmark import sensitivity
from sparser_ros.solver import thresholds


def test_every_group_of_numbers_has_cases():
    cases = sensitivity.family(0.1)
    assert {info.group for _, info in thresholds.numbers().values()} <= set(cases)
    for case in cases['ranges'] + cases['robust']:
        one, same = (case.make(sensitivity.SEED) for _ in range(2))
        assert one.n_poses + one.n_landmarks > 0
        assert (one.relative_poses.rotation == same.relative_poses.rotation).all()


def test_variants_are_halves_doubles_and_off():
    info = thresholds.NumberInfo('', '', '', '', None)
    assert dict(sensitivity.variants(5, info)) == {'x 0.5': 2, 'x 2': 10}
    assert dict(sensitivity.variants(1, info)) == {'x 0.5': 1, 'x 2': 2}
    off = thresholds.NumberInfo('', '', '', '', 0.0)
    assert dict(sensitivity.variants(0.5, off)) == {'x 0.5': 0.25, 'x 2': 1.0, 'off': 0.0}
    assert dict(sensitivity.variants((0.2, 0.4), info))['x 2'] == (0.4, 0.8)


def test_a_number_that_matters_shows(tmp_path: Path):
    default = thresholds.current()
    assert sensitivity.main([
        '--groups', 'poses', '--numbers', 'frozen_least_cg_steps', 'poor_start_ratio',
        '--seeds', '1', '--runs', '1', '--scale', '0.1', '--out', str(tmp_path)]) == 0
    assert thresholds.current() is default
    rows = json.loads((tmp_path / 'sensitivity.json').read_text())['rows']
    assert {(row['number'], row['variant']) for row in rows} == {
        ('poor_start_ratio', 'x 0.5'), ('poor_start_ratio', 'x 2'), ('poor_start_ratio', 'off'),
        ('frozen_least_cg_steps', 'x 0.5'), ('frozen_least_cg_steps', 'x 2')}
    # Every start is poor at half the ratio, and every refinement is made twice.
    twice = next(row for row in rows if row['value'] == '0.625')
    assert twice['cg_steps'] > 1.2
    assert all(row['cost'] > -1 and row['worst'] >= row['cost'] - 1e-9 for row in rows)
