"""The front-end, its increments and its journal, as they were when the node ended."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ...config import SparserError
from ...config.sparser import SparserConfig
from ...frontend import Frontend, Inputs, state
from ...graph import Increment
from ..session.rulings import Rulings
from ..session.thinning_step import possible, thinned
from . import journal_reader, protocol
from . import journal_records as records
from .journal import Journal
from .journal_files import Files
from .kept_map import KeptMap
from .worker import NO_RULINGS

Deserialise = Callable[[str, bytes], Any]
NOT_INPUT = ('node', 'backend', 'solver')
"""Sections of the configuration that the front-end does not read."""
LOADED = 'radios_loaded'
"""Set in the begin of a session whose radios are not those of the parameters, but of a map."""


@dataclass(frozen=True)
class Resumed:
    """Where a session went on, or began."""

    frontend: Frontend
    inputs: Inputs
    increments: list[Increment] = field(default_factory=list)
    kept: KeptMap | None = None
    rulings: Rulings = NO_RULINGS
    """What the operator has said about measurements."""
    archived: int = -1
    """Sequence of the newest increment in a `.graph` file."""
    number: int | None = None
    """Of the session; None = a new one."""
    next_record: int = 0
    messages: int = 0
    topics: Counter[str] = field(default_factory=Counter)
    """How many of each topic."""
    notes: tuple[str, ...] = ()
    """What an operator must know, in words."""
    begin: dict[str, Any] = field(default_factory=dict)


def fresh(config: SparserConfig) -> Resumed:
    """A session that begins."""
    return Resumed(Frontend(config), Inputs(config), begin=begin_values(config))


def begin_values(
    config: SparserConfig, positions: dict[str, list[float]] | None = None,
    rulings: Rulings = NO_RULINGS, frames: Sequence[Sequence[object]] = (),
) -> dict[str, Any]:
    """How a session begins: a configuration, and perhaps beacons, rulings and constant transforms
    from before."""
    return {'config': asdict(config), 'positions': positions or {}, 'rulings': rulings.values(),
            'frames': list(frames)}


def resume(files: Files, config: SparserConfig, deserialise: Deserialise) -> Resumed:
    """Go on with the newest session, or begin one where there is none to go on with."""
    session = journal_reader.newest(files)
    if session is None:
        return fresh(config)
    before = protocol.config_from(json.dumps(session.begin['config']))
    if (before.robots, before.dimension) != (config.robots, config.dimension):
        raise SparserError(
            f'the journal holds robots {", ".join(before.robots)} in {before.dimension}D, the '
            f'parameters say {", ".join(config.robots)} in {config.dimension}D')
    notes = [f'lost from the journal: {text}' for text in session.losses]
    changed = _changed(before, config, (
        *NOT_INPUT, 'radios.') if session.begin.get(LOADED) else NOT_INPUT)
    if changed:
        notes.append(f'the session goes on with the values with which it began: {changed}')
    if session.state is None:
        frontend, inputs = Frontend(before), Inputs(before)
        frontend.frames.restore(session.begin.get('frames', ()))
        if session.begin['positions']:
            frontend.reset(keep_beacons=True, positions=session.begin['positions'])
    else:
        if session.state['version'] != state.fingerprint():
            raise SparserError('the journal was written by another version of this package')
        frontend, inputs = state.unpack(session.front_end)
    archived = -1 if session.state is None else session.state['sequence']
    increments, kept = list(session.increments), session.kept
    thinnings = frontend.thinnings
    for record in session.records:
        new = _replayed(record, frontend, inputs, deserialise)
        increments += new
        if new:
            increments, kept = _thinned(increments, frontend, kept)
    if frontend.thinnings != thinnings:
        archived = -1
    newest = increments[-1].sequence if increments else -1
    if kept is not None and (
            kept.verdict.sequence > newest or session.losses
            or kept.thinnings != frontend.thinnings):
        kept = None  # it speaks of measurements that are not there, or numbers others
    return Resumed(frontend, inputs, increments, kept, Rulings.from_values(session.rulings),
                   archived, session.number, session.next_number, session.messages,
                   session.topics, tuple(notes), {**session.begin, 'rulings': session.rulings})


def _replayed(record: records.Record, frontend: Frontend, inputs: Inputs,
              deserialise: Deserialise) -> list[Increment]:
    for one in records.unpack_messages(record.body):
        route = inputs.match(one.topic, one.type)
        if route is not None:
            frontend.feed_bytes(route, one.data, one.received_ns, deserialise)
    if record.take == records.NO_TAKE:
        return []
    increment = frontend.take(flush=record.take == records.FLUSH)
    return [] if increment is None else [increment]


def _thinned(
    increments: list[Increment], frontend: Frontend, kept: KeptMap | None
) -> tuple[list[Increment], KeptMap | None]:
    """The increments after a thinning, where one was due then; and the map in their numbering."""
    quarantined = () if kept is None else kept.verdict.quarantined
    drop = frontend.thin() if possible(quarantined) else None
    if drop is None:
        return increments, kept
    step = thinned(increments, drop, frontend.config.keyframes.thinned_per_pair, quarantined)
    if kept is not None and kept.thinnings == frontend.thinnings - 1:
        kept = kept.thinned(step)
    return [step.increment], kept


def state_record(frontend: Frontend, inputs: Inputs, sequence: int,
                 topics: Mapping[str, int]) -> bytes:
    """The body of a checkpoint after increment `sequence` and so many messages of each topic."""
    values = {
        'version': state.fingerprint(), 'sequence': sequence, 'topics': dict(topics)}
    return journal_reader.join_state(values, state.pack(frontend, inputs))


def open_journal(files: Files, config: SparserConfig, resumed: Resumed) -> Journal:
    """The journal to go on with; one that resumes begins with the state that was reached."""
    options = config.node.journal
    if resumed.number is None:
        return Journal(files, options, resumed.begin)
    journal = Journal(files, options, resumed.begin, resumed.number, resumed.next_record,
                      resumed.messages, resumed.topics)
    newest = resumed.increments[-1].sequence if resumed.increments else -1
    journal.checkpoint(
        state_record(resumed.frontend, resumed.inputs, newest, journal.topics),
        [one for one in resumed.increments if one.sequence > resumed.archived],
        anew=resumed.archived < 0 < resumed.frontend.thinnings)
    return journal


def _changed(before: SparserConfig, now: SparserConfig, but: tuple[str, ...]) -> str:
    """Names of parameters that differ, with both values, but those that begin with `but`."""
    old, new = _flat(asdict(before)), _flat(asdict(now))
    return ', '.join(
        f'{name} = {old.get(name)!r} (now {new.get(name)!r})' for name in sorted({*old, *new})
        if old.get(name) != new.get(name) and not name.startswith(but))


def _flat(values: dict[str, Any], prefix: str = '') -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, dict):
            found |= _flat(value, f'{prefix}{name}.')
        else:
            found[prefix + name] = value
    return found
