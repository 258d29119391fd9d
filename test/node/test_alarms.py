"""That data have stopped is said once, by the finding that says what follows from it."""

from dataclasses import replace

from sparser_ros.backend.process.worker_state import WorkerState
from sparser_ros.graph.finding import Finding
from sparser_ros.node.alarms import failures, without_echoes

ALL = Finding('data_stale', 'all inputs', 'no data for 12 s', 12.0, 's')
B = Finding('odometry_stale', 'B', 'no odometry of B for 6 s', 6.0, 's')
B_SILENT = Finding('odometry_silent', 'B', 'the odometry of B has been silent for 6 s', 6.0, 's')
A_SILENT = replace(B_SILENT, subject='A')
TOPIC = Finding('input_silent', '/B/odom', '/B/odom has been silent for 12 s', 12.0, 's')
UNHEARD = Finding('input_unheard', '/C/odom', '/C/odom has said nothing for 12 s', 12.0, 's')
BIAS = Finding('range_bias', 'B', 'ranges of radio B are 0.48 m too long', 0.48, 'm')
RUNNING = WorkerState(
    pid=1, auditor_pid=2, busy=False, restarting=False, auditor_missing='', restarts=0,
    settled=True, failed='', text='running')


def test_when_all_data_stop_no_topic_and_no_robot_repeats_it():
    assert without_echoes([ALL, A_SILENT, B_SILENT, TOPIC, UNHEARD, BIAS]) == [ALL, UNHEARD, BIAS]


def test_a_robot_that_stops_alone_is_named_once_and_its_topic_with_it():
    assert without_echoes([B, A_SILENT, B_SILENT, TOPIC]) == [B, A_SILENT, TOPIC]
    assert without_echoes([B_SILENT, TOPIC]) == [B_SILENT, TOPIC]


def test_an_auditor_that_was_lost_is_a_finding_and_one_that_starts_is_not():
    assert failures(RUNNING) == []
    assert failures(replace(RUNNING, auditor_missing='the auditor starts')) == []
    (lost,) = failures(replace(
        RUNNING, auditor_missing='the auditor process was lost', restarts=1))
    assert lost.kind == 'auditor_lost' and 'auditor' in lost.text
