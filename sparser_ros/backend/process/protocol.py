"""The messages between node and solver process; `codec` turns them into bytes.

To the process: increment, restore, solve, reset, configure, close. From it: ready, beat, working,
solution, failed. Every solution names the request it answers and the generation (number of
resets) it belongs to.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

from ...graph import Estimate
from ..session.solution import Solution
from .codec import Packet, encode, encode_solution, estimate_arrays

if TYPE_CHECKING:
    from ...config.sparser import SparserConfig

INCREMENT, RESTORE, SOLVE, RESET = 'increment', 'restore', 'solve', 'reset'
CONFIGURE, CLOSE = 'configure', 'close'
READY, BEAT, WORKING, SOLUTION, FAILED = 'ready', 'beat', 'working', 'solution', 'failed'


def config_text(config: SparserConfig) -> str:
    """The configuration as JSON."""
    return json.dumps(asdict(config))


def config_from(text: str) -> SparserConfig:
    """The configuration kept by `config_text`."""
    from ...config.option import build
    from ...config.sparser import SparserConfig

    return build(SparserConfig, json.loads(text))


def solve_message(request: int, full: bool | None, idle: bool = False) -> bytes:
    """Ask for a solve; see `Session.solve`."""
    return encode(SOLVE, {'request': request, 'full': full, 'idle': idle})


def restore_message(estimate: Estimate) -> bytes:
    """An estimate to go on from, after a respawn."""
    return encode(RESTORE, {}, estimate_arrays(estimate))


def answer_values(packet: Packet) -> tuple[int, int]:
    """(request, generation) of a solution or failure."""
    return int(packet.values['request']), int(packet.values['generation'])


def answered(solution: Solution, request: int, generation: int) -> bytes:
    """A solution with the request and the generation it answers."""
    return encode_solution(solution, {'request': request, 'generation': generation})
