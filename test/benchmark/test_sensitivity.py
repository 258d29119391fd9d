"""The sweep of the solver's numbers: every one has a case that reads it, and ratios are right."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from benchmark import sensitivity
from sparser_ros.number_registry import NumberInfo
from sparser_ros.solver import thresholds


def test_every_group_of_numbers_has_cases():
    cases = sensitivity.family(0.1)
    groups = {info.group for _, info in thresholds.numbers().values()}
    assert groups == set(cases) | set(sensitivity.NOT_SWEPT)
    for case in cases['ranges'] + cases['robust']:
        one, same = (case.make(sensitivity.SEED) for _ in range(2))
        assert one.n_poses + one.n_landmarks > 0
        assert (one.relative_poses.rotation == same.relative_poses.rotation).all()


def test_variants_are_halves_doubles_and_off():
    info = NumberInfo('', '', '', '', None)
    assert dict(sensitivity.variants(5, info)) == {'x 0.5': 2, 'x 2': 10}
    assert dict(sensitivity.variants(1, info)) == {'x 0.5': 1, 'x 2': 2}
    off = NumberInfo('', '', '', '', 0.0)
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


def test_updates_of_a_live_pose_graph_end_where_a_solve_of_all_of_it_does():
    case = sensitivity.family(0.1)['incremental'][-1]
    graph = case.make(sensitivity.SEED)
    found = sensitivity.measured(case, graph, sensitivity.SEED, 1)
    whole = sensitivity.measured(replace(case, live=False), graph, sensitivity.SEED, 1)
    assert found.cost == pytest.approx(whole.cost, rel=1e-4)
    assert found.cg_steps > sensitivity.TICKS


@pytest.mark.parametrize('which', [0, 1])
def test_updates_of_live_ranges_do_not_depend_on_the_order_of_elimination(which):
    case = sensitivity.family(0.3)['incremental'][which]
    graph = case.make(sensitivity.SEED)
    found = sensitivity.measured(case, graph, sensitivity.SEED, 1)
    with thresholds.override(merged_nodes_always=1, reorder_growth=1.1):
        other = sensitivity.measured(case, graph, sensitivity.SEED, 1)
    assert other.cost == pytest.approx(found.cost, rel=1e-4)
    assert other.cg_steps > found.cg_steps
