"""Robots that data have denied a moment ago, or that were lost, and nothing has told more since."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from .newest_evidence import LOOK_BACK_S

_FITS, _FITS_AT_ONCE = 0.25, 0.01
"""Probability that honest data fit worse from which on a contradiction is over: once there are
newer data, and for the same data in another map, which is then the better one."""


class Suspicions:
    """Memory of contradictions, for LOOK_BACK_S or until the data fit well.

    A map that has bent to a fault fits better again, some metres off.
    """

    def __init__(self) -> None:
        self._last_ns: dict[str, int] = {}
        self._lost: dict[str, str] = {}
        self._audited = -1

    def lost(self, adrift: Mapping[str, str], audited: int) -> dict[str, str]:
        """{robot: why} of robots that are adrift, or were since the newest audit, of a sequence.

        The first ranges after that tell one direction; whether they tell enough is for an audit.
        """
        if audited != self._audited:
            self._lost, self._audited = {}, audited
        self._lost.update(adrift)
        return dict(self._lost)

    def held(
        self, contradictions: Mapping[str, str], explained: Collection[str],
        fit: Mapping[str, float], newest_stamp_ns: int,
    ) -> dict[str, str]:
        """{robot: why it must wait} of robots that nothing contradicts now.

        `explained` names robots that a fault has been found of; `fit` is, by robot, the probability
        that honest data fit worse than the newest.
        """
        for robot in contradictions:
            self._last_ns[robot] = newest_stamp_ns
        waiting = {}
        for robot, last_ns in list(self._last_ns.items()):
            age_s = (newest_stamp_ns - last_ns) * 1e-9
            if robot in contradictions:
                continue
            fits = fit.get(robot, 0.0) > (_FITS if age_s > 0 else _FITS_AT_ONCE)
            if robot in explained or fits or not 0 <= age_s < LOOK_BACK_S:
                del self._last_ns[robot]
            else:
                waiting[robot] = (
                    f'measurements of {robot} contradicted the map {age_s:.0f} s ago, and nothing '
                    'has explained that')
        return waiting
