"""The table of certificates on graphs of a few poses."""

from benchmark import certificate, synthetic


def test_a_pose_graph_is_certified_and_a_range_graph_bounded():
    (row,) = certificate.measured(synthetic.pose_graph(120, closures=1.0))
    assert row['certified'] == 'yes' and row['relaxed_gap'] <= 1e-6
    (row,) = certificate.measured(synthetic.range_graph(120, robots=2))
    assert row['lower'] <= row['cost'] and row['relaxed_gap'] <= 2e-4
    assert row['solve_s'] > 0 and row['certify_s'] >= 0
