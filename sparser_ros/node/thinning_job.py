"""A thinning under way: computed in a thread while data go on coming in."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from ..array_types import Mask
from ..backend.session.thinning_step import ThinningStep, thinned
from ..graph import Increment


class ThinningJob:
    """Thins the sum of some increments; what comes later is numbered as after it."""

    def __init__(
        self, increments: Sequence[Increment], drop: Mask, per_pair: int,
        quarantined: Sequence[tuple[int, int]],
    ) -> None:
        self._arguments = tuple(increments), drop, per_pair, tuple(quarantined)
        self._step: ThinningStep | None = None
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._work, name='sparser-thinning', daemon=True)
        self._thread.start()

    def _work(self) -> None:
        try:
            self._step = thinned(*self._arguments)
        except Exception as error:
            # For the thread that asks for the outcome.
            self._error = error

    @property
    def done(self) -> bool:
        """Whether the outcome is there."""
        return not self._thread.is_alive()

    def outcome(self) -> ThinningStep:
        """The outcome, waited for; raises what the thinning has raised."""
        self._thread.join()
        if self._error is not None:
            raise self._error
        assert self._step is not None
        return self._step
