"""Robots that data have denied a moment ago, and nothing has explained it since."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from .newest_evidence import LOOK_BACK_S


class Suspicions:
    """Memory of contradictions: one that ends by itself is over once newer data alone agree.

    A map that has bent to a fault fits again, some metres off.
    """

    def __init__(self) -> None:
        self._last_ns: dict[str, int] = {}

    def held(
        self, contradictions: Mapping[str, str], explained: Collection[str], newest_stamp_ns: int
    ) -> dict[str, str]:
        """{robot: why it must wait} of robots that nothing contradicts now.

        `explained` names robots that a fault has been found of.
        """
        for robot in contradictions:
            self._last_ns[robot] = newest_stamp_ns
        waiting = {}
        for robot, last_ns in list(self._last_ns.items()):
            age_s = (newest_stamp_ns - last_ns) * 1e-9
            if robot in explained or not 0 <= age_s < LOOK_BACK_S:
                del self._last_ns[robot]
            elif robot not in contradictions:
                waiting[robot] = (
                    f'measurements of {robot} contradicted the map {age_s:.0f} s ago, and nothing '
                    'has explained that')
        return waiting
