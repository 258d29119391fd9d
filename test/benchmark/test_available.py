"""Shares of time in which robots of a recorded set are placed."""

from pathlib import Path

import pytest

from benchmark.available import config_of, play
from sparser_ros.config import ConfigError
from sparser_ros.io import graph_file

SAMPLE = Path(__file__).resolve().parents[2] / 'docs' / 'samples' / 'two_robots.pyfg'


def test_what_the_node_says_is_counted_against_the_reference():
    graph = graph_file.read(SAMPLE)
    tally = play(graph, graph.poses.translation, config_of(graph, 1.0, []), 12)
    assert 0 < len(tally.lines) <= 12
    assert tally.total > 12, 'two robots at every tick'
    withheld = sum(tally.reasons.values())
    assert withheld == tally.map_right - tally.right
    assert 0 < tally.right == tally.located and tally.wrong == 0
    assert tally.right <= tally.map_right <= tally.total
    # Of a reference that lies elsewhere at the end the same robots are wrong.
    false = graph.poses.translation.copy()
    false[graph.poses.index > 20] += [7.0, -3.0]
    other = play(graph, false, config_of(graph, 1.0, []), 12)
    assert other.located == tally.located and other.wrong > 0


def test_parameters_are_the_nodes():
    graph = graph_file.read(SAMPLE)
    config = config_of(graph, 3.0, ['backend.audit.stale_s=20'])
    assert config.backend.observability.alert_limit_m == 3.0
    assert config.backend.audit.stale_s == 20.0
    with pytest.raises(ConfigError, match='stale'):
        config_of(graph, 3.0, ['backend.audit.stal_s=20'])
