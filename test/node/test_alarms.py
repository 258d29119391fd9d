"""What is wrong is said once, new and bad first; old data and a silent solver are told apart."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import Mock

import pytest

from sparser_ros.backend.process.worker import WorkerState
from sparser_ros.graph.finding import Finding
from sparser_ros.node import alarms
from sparser_ros.node.status import MOST_TEXT, joined

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
SWAP = Finding('radios_swapped', 'B and C', 'ranges of radios B and C fit better when swapped')
OTHER = Finding('something', 'X', 'X')
S = 10**9


@pytest.mark.parametrize(('findings', 'told'), [
    ([ALL, A_SILENT, B_SILENT, TOPIC, UNHEARD, BIAS], [ALL, UNHEARD, BIAS]),
    ([B, A_SILENT, B_SILENT, TOPIC], [B, A_SILENT, TOPIC]),
    ([B_SILENT, TOPIC], [B_SILENT, TOPIC])])
def test_nothing_repeats_that_data_have_stopped(findings, told):
    assert alarms.without_echoes(findings) == told


def test_an_auditor_that_was_lost_is_a_finding_and_one_that_starts_is_not():
    assert alarms.failures(RUNNING) == []
    assert alarms.failures(replace(RUNNING, auditor_missing='the auditor starts')) == []
    (lost,) = alarms.failures(replace(
        RUNNING, auditor_missing='the auditor process was lost', restarts=1))
    assert lost.kind == 'auditor_lost' and 'auditor' in lost.text


def test_new_findings_come_first_then_the_worst():
    since: dict = {}

    def ordered(findings, now_s):
        nonlocal since
        order, since = alarms.ordered(findings, since, now_s)
        return order

    assert ordered([BIAS, SWAP, OTHER], 0.0) == (SWAP, BIAS, OTHER)
    assert ordered([BIAS, SWAP, OTHER], 2 * alarms.NEW_S) == (SWAP, BIAS, OTHER)
    new = Finding('range_bias', 'C', 'ranges of radio C are 1.00 m too short')
    assert ordered([BIAS, SWAP, new], 3 * alarms.NEW_S) == (new, SWAP, BIAS)
    assert ordered([BIAS, SWAP, new], 5 * alarms.NEW_S) == (SWAP, BIAS, new)
    ordered([ALL], 6 * alarms.NEW_S)
    assert ordered([ALL, BIAS], 8 * alarms.NEW_S) == (ALL, BIAS)
    assert ordered([SWAP, SWAP], 20 * alarms.NEW_S) == (SWAP,)
    assert ordered([SWAP, BIAS], 40 * alarms.NEW_S) == (BIAS, SWAP)


def test_the_text_is_bounded_and_counts_what_it_leaves_out():
    assert joined([]) == ''
    assert joined(['a', 'b']) == 'a; b'
    text = joined([f'finding number {k} of a long list' for k in range(100)])
    assert text.startswith('finding number 0 of a long list; ')
    assert len(text) <= MOST_TEXT + 20 and text.endswith(' more')
    shown = text.count('finding number')
    assert text.endswith(f'and {100 - shown} more')
    assert len(joined(['x' * 5000])) <= MOST_TEXT


@pytest.mark.parametrize(('steps', 'jumped', 'trusted'), [
    ((0.01, 20, 0, -0.5), 0, True),
    # One wrong message is doubted, and forgotten once the clock is back.
    ((-500,), 0, False), ((-500, 500.01), 0, True), ((3000,), 0, False),
    ((3000, -2999.99), 0, True),
    # Three that agree are a jump back.
    ((-500, 0.1), 0, False), ((-500, 0.1, 0.1), 1, True),
    ((-500, 0.1, 0.1, 500, 0.1, 0.1), 1, True),
    # Far ahead is believed without a reset; wrong ones that disagree are no jump.
    ((3000, 0.1, 0.1), 0, True), ((-50, -70, -90, 208, -300), 0, False),
    ((-50, -70, -90, 208, -300, 302), 0, True)])
def test_a_jump_of_the_clock_counts_once_several_readings_agree(steps, jumped, trusted):
    now = Mock(nanoseconds=1000 * S)
    node = Mock(**{'get_clock.return_value.now.return_value': now,
                   'get_publishers_info_by_topic.return_value': []})
    watch, jumps = alarms.ClockWatch(node), 0
    assert not watch.look()
    for step in steps:
        now.nanoseconds += round(step * S)
        jumps += watch.look()
    assert (jumps, watch.trusted) == (jumped, trusted)
    assert ('the clock jumped back by' in watch.words) == bool(jumped)
