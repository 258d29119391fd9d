"""A second drive is located in the map of the first: other paths, other noise, other starts."""


from benchmark import second_drive
from sparser_ros.config.simulation_config import SimulationConfig

SCENE = {'robots': 2, 'beacons': 4, 'minutes': 0.8, 'odometry_rate': 4.0, 'range_rate': 8.0,
         'radius': 15.0, 'truth_rate': 0.0}


def test_a_second_drive_is_right_in_the_frame_of_the_first_without_an_initial_pose():
    """Against the truth, nothing of it aligned; the first map's own error limits it."""
    row = second_drive.measured(SimulationConfig(seed=0, **SCENE))
    assert row['beacons'] == 4 and row['located'] == 2
    assert row['after_s'] < 30, 'long before its end'
    assert row['second_m'] < 0.2 and row['most_m'] < 0.5
    assert row['first_m'] < 0.2
