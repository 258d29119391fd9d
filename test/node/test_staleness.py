"""Old data and a silent solver are told apart, and named."""

from sparser_ros.node.staleness import Staleness


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


def test_nothing_is_stale_before_anything_came():
    clock = Clock()
    ages = Staleness(('A', 'B'), clock)
    clock.now += 1000
    assert ages.stale(5.0) == {}


def test_the_robot_whose_odometry_stops_is_named():
    clock = Clock()
    ages = Staleness(('A', 'B'), clock)
    for k in range(20):
        clock.now += 1
        ages.data(k + 1, {'A': k, 'B': min(k, 10)})
        ages.solved()
    found = ages.stale(5.0)
    assert list(found) == ['B']
    assert 'B' in found['B'].text and found['B'].value == 9
    assert ages.stale(0.0) == {}


def test_a_solver_that_gives_nothing_while_data_come_stops_all():
    clock = Clock()
    ages = Staleness(('A',), clock)
    ages.data(1, {'A': 1})
    ages.solved()
    for k in range(10):
        clock.now += 1
        ages.data(k + 2, {'A': k + 2})
        ages.progress(False)
    found = ages.stale(5.0)
    assert list(found) == [''] and found[''].kind == 'solution_stale'
    assert ages.solution_age_s == 10
    ages.solved()
    ages.progress(True)
    assert ages.stale(5.0) == {}


def test_an_old_solution_of_all_the_data_is_not_the_solvers_fault():
    clock = Clock()
    ages = Staleness(('A',), clock)
    ages.data(1, {'A': 1})
    ages.solved()
    ages.progress(True)
    clock.now += 7
    found = ages.stale(5.0)
    assert list(found) == [''] and found[''].kind == 'data_stale'
