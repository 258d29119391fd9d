"""The messages between the node, the tracker process and the auditor process.

To both: increment, thin, reset, rulings, configure, close. To the tracker also: solve, verdict. To
the auditor also: solution (the tracker's newest), audit, pause. From both: ready, beat, failed.
From the tracker: solution. From the auditor: verdict, bound. Every answer names the generation
(number of resets and thinnings) it belongs to and the newest request it answers. The contents are
frozen dataclasses (`Increment`, `Solution`, `Verdict`, `Bound`), or the plain values listed here;
`codec` turns all of them into bytes.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from ..session.bound import Bound
from ..session.rulings import Rulings
from .codec import Packet, encode

if TYPE_CHECKING:
    from ...config.sparser import SparserConfig

INCREMENT, SOLVE, AUDIT, RESET = 'increment', 'solve', 'audit', 'reset'
RULINGS, CONFIGURE, THIN, CLOSE = 'rulings', 'configure', 'thin', 'close'
PAUSE = 'pause'
READY, BEAT, SOLUTION, VERDICT, FAILED = 'ready', 'beat', 'solution', 'verdict', 'failed'
BOUND = 'bound'


@dataclass(frozen=True)
class Request:
    """A solve or an audit that is asked for."""

    number: int
    full: bool | None = None
    """Where both roles share a process: whether to audit (True), not to (False), as due (None)."""


@dataclass(frozen=True)
class Answer:
    """What a solution, verdict or failure answers."""

    generation: int
    request: int
    """Newest solve request; of a verdict: the audit request, -1 = it came by itself."""
    audit: int = -1
    """Newest audit request that a solution has taken over."""


def config_text(config: SparserConfig) -> str:
    """The configuration as JSON."""
    return json.dumps(asdict(config))


def config_from(text: str) -> SparserConfig:
    """The configuration kept by `config_text`."""
    from ...config.option import build
    from ...config.sparser import SparserConfig

    return build(SparserConfig, json.loads(text))


def request_message(kind: str, request: Request) -> bytes:
    """Ask for a solve or an audit."""
    return encode(kind, asdict(request))


def request_of(packet: Packet) -> Request:
    """The request of a packet of kind `solve` or `audit`."""
    return Request(**packet.values)


def reset_message(generation: int, epoch: int) -> bytes:
    """Forget all data; `epoch` is that of the next map."""
    return encode(RESET, {'generation': generation, 'epoch': epoch})


def rulings_message(rulings: Rulings) -> bytes:
    """What the operator says about measurements; it outlasts resets."""
    return encode(RULINGS, rulings.values())


def pause_message(paused: bool) -> bytes:
    """Work only on request from now on (true), or by itself again (false); it outlasts resets."""
    return encode(PAUSE, {'paused': paused})


def configure_message(config: SparserConfig) -> bytes:
    """Use another configuration from now on."""
    return encode(CONFIGURE, {'config': config_text(config)})


def failed_message(answer: Answer, text: str, traceback: str) -> bytes:
    """A solve or audit ended by an exception."""
    return encode(FAILED, {'answer': asdict(answer), 'text': text, 'traceback': traceback})


def bound_message(bound: Bound, answer: Answer) -> bytes:
    """What is proved of the map of an audit."""
    return encode(BOUND, {'answer': asdict(answer), 'bound': asdict(bound)})


def bound_of(packet: Packet) -> Bound:
    """The bound of a packet of kind `bound`."""
    return Bound(**packet.values['bound'])


def answer_of(packet: Packet) -> Answer:
    """What a packet of kind solution, verdict, bound or failed answers."""
    return Answer(**packet.values['answer'])
