"""Writes docs/messages.md from msg/, srv/ and the reasons of refusal:
`./dev/run python dev/messages.py`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from sparser_ros.frontend.counters import REASONS

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / 'docs' / 'messages.md'

HEADER = """# Messages and services

Written by `dev/messages.py` from `msg/`, `srv/` and `frontend/counters.py`; do not edit. Units are
SI. [Topics, services, frames](topics.md) lists all of them, also those of standard types; `~`
stands for `/sparser`.
"""

REFUSALS = """## Why messages are refused

`/diagnostics` and reports count refused messages by reason.

| reason | meaning |
|---|---|"""
USED_BY = {
    'UwbRange': 'Subscribed on `/uwb/ranges`; other topics and types through `ranges.inputs`.',
    'LandmarkSighting':
        'Subscribed on `/landmark_sightings`; topics of single tags through `sightings.inputs`.',
    'LoopClosure':
        'Subscribed on `/loop_closures`; other topics and types through `closures.inputs`.',
    'SolverStatus': 'Published on `~/status`.',
    'RejectedMeasurement': 'Part of the answer of `~/rejected`.',
    'Measurements': 'Called as `~/measurements`.',
    'Rejected': 'Called as `~/rejected`.',
    'MapName': 'Called as `~/save_as` and `~/load`.',
}
FIELD = re.compile(r'^(?P<type>[\w/\[\]]+)\s+(?P<name>\w+)(?:\s*=\s*(?P<value>\S+))?$')


def page() -> str:
    lines = [HEADER]
    for folder, title in (('msg', 'Messages'), ('srv', 'Services')):
        lines += [f'## {title}', '']
        for path in sorted((ROOT / folder).glob(f'*.{folder}')):
            lines += [f'### {path.stem}', '', *section(path)]
    lines += [REFUSALS, *(f'| `{reason}` | {words} |' for reason, words in sorted(
        REASONS.items()))]
    return '\n'.join(lines).rstrip() + '\n'


def section(path: Path) -> Iterator[str]:
    """Lines about one file: what it is for, then a table of each part of it."""
    parts = path.read_text(encoding='utf-8').split('\n---\n')
    described = ' '.join(
        line[1:].strip() for line in parts[0].splitlines() if line.startswith('#'))
    yield f'{described} {USED_BY[path.stem]}'
    yield ''
    for title, part in zip(('Request', 'Answer'), parts, strict=False):
        if len(parts) > 1:
            yield f'{title}:'
            yield ''
        yield '| field | type | meaning |'
        yield '|---|---|---|'
        yield from rows(part)
        yield ''


def rows(part: str) -> Iterator[str]:
    """One row for each field or constant."""
    for line in part.splitlines():
        declared, _, comment = line.partition('#')
        if not declared.strip():
            continue
        field = FIELD.match(declared.strip())
        if field is None:
            raise ValueError(f'no field: {line!r}')
        name = f'`{field["name"]}`' + (f' = {field["value"]}' if field['value'] else '')
        meaning = comment.strip().replace('|', '\\|').replace('<', '&lt;')
        yield f'| {name} | `{field["type"]}` | {meaning} |'


if __name__ == '__main__':
    PAGE.write_text(page(), encoding='utf-8')
