"""Topics that do not go with a configuration are named, with the one that may be meant."""

from sparser_ros.config.sparser import SparserConfig
from sparser_ros.frontend.inputs import ODOMETRY_TYPE, Inputs, topic_findings

UWB = 'sparser_ros/msg/UwbRange'


def texts(config, topics, known=()):
    return [one.text for one in topic_findings(
        Inputs(SparserConfig.from_mapping(config)), topics, known)]


def test_topics_that_fit_say_nothing():
    assert texts({'robots': ['A']}, {'/A/odom': ODOMETRY_TYPE, '/uwb/ranges': UWB}) == []


def test_a_missing_topic_names_the_nearest_of_its_type():
    found = texts({'robots': ['A']}, {'/A/odometry': ODOMETRY_TYPE, '/ranges': UWB})
    assert found == [
        'there is no topic /A/odom (odometry.topic); is /A/odometry meant?',
        'there is no topic /uwb/ranges (ranges.inputs); is /ranges meant?']


def test_closures_are_optional_and_ranges_are_not():
    assert texts({'robots': ['A']}, {'/A/odom': ODOMETRY_TYPE}) == [
        'there is no topic /uwb/ranges (ranges.inputs)']


def test_unused_topics_of_our_types_are_named_once_by_type():
    topics = {'/A/odom': ODOMETRY_TYPE, '/B/odom': ODOMETRY_TYPE, '/A/truth': ODOMETRY_TYPE,
              '/C/odom': ODOMETRY_TYPE, '/uwb/ranges': UWB, '/camera': 'sensor_msgs/msg/Image'}
    (text,) = texts({'robots': ['A']}, topics, ['/A/truth'])
    assert '/B/odom, /C/odom' in text and 'robots' in text and '/camera' not in text


def test_another_type_is_named():
    (text,) = texts(
        {'robots': ['A']}, {'/A/odom': 'geometry_msgs/msg/PoseStamped', '/uwb/ranges': UWB})
    assert 'geometry_msgs/msg/PoseStamped' in text and ODOMETRY_TYPE in text


def test_a_regular_expression_that_matches_nothing():
    pattern = {'topic': '/tof/(?P<source>.*)/(?P<target>.*)', 'adapter': 'pair_topic'}
    (text,) = texts({'robots': ['A'], 'ranges': {'inputs': {'tof': pattern}}},
                    {'/A/odom': ODOMETRY_TYPE})
    assert 'no topic matches the regular expressions' in text
