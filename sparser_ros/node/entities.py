"""What a phase of a node's life has made: publishers, subscriptions, services and timers."""

from __future__ import annotations

from typing import Any

from rclpy.node import Node

KINDS = ('subscription', 'timer', 'service', 'publisher')
"""In the order in which they are destroyed: what may call comes before what is called."""


class Entities:
    """The entities that a node makes from here on."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._before = {id(one) for kind in KINDS for one in self._all(kind)}

    def _all(self, kind: str) -> list[Any]:
        return list(getattr(self._node, f'{kind}s'))

    def destroy(self) -> None:
        """Destroy them."""
        for kind in KINDS:
            for one in self._all(kind):
                if id(one) not in self._before:
                    getattr(self._node, f'destroy_{kind}')(one)
