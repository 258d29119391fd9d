"""The tracker process leaves time to the auditor."""

from hypothesis import given
from hypothesis import strategies as st

from sparser_ros.backend.process.tracker_process import rested_s
from sparser_ros.solver.result import SolveStatus


@given(st.floats(0, 1e6), st.floats(0, 100), st.sampled_from(SolveStatus))
def test_only_ticks_that_do_not_settle_are_followed_by_a_pause_as_long(begin, took, status):
    end = begin + took
    stalled = status is SolveStatus.STALLED
    assert rested_s(status, begin, end) == (end + (end - begin) if stalled else end)
