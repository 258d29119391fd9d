"""The text of the status: new and bad first, and not too long."""

from sparser_ros.graph.finding import Finding
from sparser_ros.node.findings import MOST_TEXT, NEW_S, FindingBoard, joined

BIAS = Finding('range_bias', 'B', 'ranges of radio B are 0.48 m too long', 0.48, 'm')
SWAP = Finding('radios_swapped', 'B and C', 'ranges of radios B and C fit better when swapped')
OTHER = Finding('something', 'X', 'X')


def test_new_findings_come_first_then_the_worst():
    board = FindingBoard()
    assert board.ordered([BIAS, SWAP, OTHER], 0.0) == (SWAP, BIAS, OTHER)
    assert board.ordered([BIAS, SWAP, OTHER], 2 * NEW_S) == (SWAP, BIAS, OTHER)
    new = Finding('range_bias', 'C', 'ranges of radio C are 1.00 m too short')
    assert board.ordered([BIAS, SWAP, new], 3 * NEW_S) == (new, SWAP, BIAS)
    assert board.ordered([BIAS, SWAP, new], 5 * NEW_S) == (SWAP, BIAS, new)


def test_that_nothing_is_published_stays_before_newer_findings():
    board = FindingBoard()
    stale = Finding('data_stale', 'all inputs', 'no data for 6 s', 6.0, 's')
    board.ordered([stale], 0.0)
    assert board.ordered([stale, BIAS], 2 * NEW_S) == (stale, BIAS)


def test_equal_findings_are_said_once_and_one_that_returns_is_new():
    board = FindingBoard()
    board.ordered([BIAS], 0.0)
    assert board.ordered([SWAP, SWAP], 100.0) == (SWAP,)
    assert board.ordered([SWAP, BIAS], 200.0) == (BIAS, SWAP)


def test_the_text_is_bounded_and_counts_what_it_leaves_out():
    assert joined([]) == ''
    assert joined(['a', 'b']) == 'a; b'
    text = joined([f'finding number {k} of a long list' for k in range(100)])
    assert text.startswith('finding number 0 of a long list; ')
    assert len(text) <= MOST_TEXT + 20 and text.endswith(' more')
    shown = text.count('finding number')
    assert text.endswith(f'and {100 - shown} more')
    assert len(joined(['x' * 5000])) <= MOST_TEXT
