"""What a journal keeps of the map, so that it stays where it is after a crash."""

from __future__ import annotations

from dataclasses import dataclass

from ..session.renumbered import kept_of
from ..session.thinning_step import ThinningStep
from ..session.verdict import Verdict
from . import protocol
from .codec import Packet
from .protocol import Answer
from .verdict_codec import decode_verdict, encode_verdict


@dataclass(frozen=True)
class KeptMap:
    """What makes `map` of another process the same: the newest verdict, and its epoch."""

    verdict: Verdict
    epoch: int
    thinnings: int = 0
    """How often the graph was thinned: which numbering of poses the verdict is in."""

    def encoded(self) -> bytes:
        """For the journal."""
        return encode_verdict(self.verdict, Answer(0, self.epoch, self.thinnings))

    @classmethod
    def decoded(cls, packet: Packet) -> KeptMap:
        """From the journal."""
        answer = protocol.answer_of(packet)
        return cls(decode_verdict(packet), answer.request, max(answer.audit, 0))

    def thinned(self, step: ThinningStep) -> KeptMap:
        """The same map after a thinning."""
        verdict = kept_of(self.verdict, step.renumbering, step.increment.sequence)
        return KeptMap(verdict, self.epoch, self.thinnings + 1)
