"""One wrong `/clock` message is ignored; several that agree are a jump."""

import pytest

from sparser_ros.node.watch import ClockGuard

S = 10**9


def guard():
    one = ClockGuard(back_ns=S, ahead_ns=60 * S, messages=3)
    one.moved(1000 * S)
    return one


def test_steps_of_ordinary_size_are_trusted_from_the_first_message_on():
    one = guard()
    for step in (S // 100, 20 * S, 0, -S // 2):
        assert not one.moved(step)
        assert one.trusted
    assert one.wrong == 0


@pytest.mark.parametrize('size', [-500 * S, 3000 * S])
def test_one_wrong_message_is_doubted_and_forgotten(size):
    one = guard()
    assert not one.moved(size)
    assert not one.trusted
    assert not one.moved(-size + S // 100)
    assert one.trusted
    assert one.wrong == 1


def test_a_clock_that_stays_behind_has_jumped_back():
    one = guard()
    assert [one.moved(step) for step in (-50 * S, S // 10, S // 10)] == [False, False, True]
    assert one.trusted


def test_two_clocks_that_alternate_are_told_from_a_bag_that_starts_again():
    one = guard()
    for times in range(3):  # three messages of each
        jumped = [one.moved(step) for step in (-500 * S, S // 10, S // 10)]
        assert jumped == [False, False, True] and one.behind and one.returns == times
        assert not any(one.moved(step) for step in (500 * S, S // 10, S // 10))
        assert not one.behind and one.returns == times + 1
    assert one.jumps == 3
    again = guard()
    for _ in range(3):
        assert [again.moved(step) for step in (-20 * S, S // 10, S // 10)][-1]
        assert not any(again.moved(S // 10) for _ in range(198))
        assert again.returns == 0 and again.behind
    assert again.jumps == 3


def test_a_clock_that_stays_far_ahead_is_believed_without_a_reset():
    one = guard()
    assert not any(one.moved(step) for step in (3000 * S, S // 10, S // 10))
    assert one.trusted


def test_wrong_messages_that_do_not_agree_with_each_other_are_no_jump():
    one = guard()
    for step in (-50 * S, -70 * S, -90 * S, 208 * S, -300 * S):
        assert not one.moved(step)
        assert not one.trusted
    assert not one.moved(302 * S)
    assert one.trusted
