"""Topics that do not go with a configuration are named, with the one that may be meant."""

import pytest

from sparser_ros.config.sparser import SparserConfig
from sparser_ros.frontend.inputs import ODOMETRY_TYPE, Inputs, topic_findings

UWB = 'sparser_ros/msg/UwbRange'


def texts(config, topics, known=()):
    return [one.text for one in topic_findings(
        Inputs(SparserConfig.from_mapping(config)), topics, known)]


@pytest.mark.parametrize(('topics', 'said'), [
    ({'/A/odom': ODOMETRY_TYPE, '/uwb/ranges': UWB}, []),
    ({'/A/odometry': ODOMETRY_TYPE, '/ranges': UWB}, [
        'there is no topic /A/odom (odometry.topic); is /A/odometry meant?',
        'there is no topic /uwb/ranges (ranges.inputs); is /ranges meant?']),
    # Closures are optional, ranges are not.
    ({'/A/odom': ODOMETRY_TYPE}, ['there is no topic /uwb/ranges (ranges.inputs)']),
    ({'/A/odom': 'geometry_msgs/msg/PoseStamped', '/uwb/ranges': UWB}, [
        '/A/odom is a geometry_msgs/msg/PoseStamped, but odometry.topic expects '
        'nav_msgs/msg/Odometry'])])
def test_what_is_said_of_topics(topics, said):
    assert texts({'robots': ['A']}, topics) == said


def test_unused_topics_of_our_types_are_named_once_by_type():
    topics = {'/A/odom': ODOMETRY_TYPE, '/B/odom': ODOMETRY_TYPE, '/A/truth': ODOMETRY_TYPE,
              '/C/odom': ODOMETRY_TYPE, '/uwb/ranges': UWB, '/camera': 'sensor_msgs/msg/Image'}
    (text,) = texts({'robots': ['A']}, topics, ['/A/truth'])
    assert '/B/odom, /C/odom' in text and 'robots' in text and '/camera' not in text


def test_a_regular_expression_that_matches_nothing():
    pattern = {'topic': '/tof/(?P<source>.*)/(?P<target>.*)', 'adapter': 'pair_topic'}
    (text,) = texts({'robots': ['A'], 'ranges': {'inputs': {'tof': pattern}}},
                    {'/A/odom': ODOMETRY_TYPE})
    assert 'no topic matches the regular expressions' in text
