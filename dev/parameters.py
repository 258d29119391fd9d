"""Writes docs/parameters.md from the dataclasses: `./dev/run python dev/parameters.py`."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Iterator
from pathlib import Path

from sparser_ros.config import FlatOption, SparserConfig, walk
from sparser_ros.config.inputs_config import (
    ClosureInput,
    HeightInput,
    RadioSpec,
    RangeInput,
    SightingInput,
)

PAGE = Path(__file__).resolve().parent.parent / 'docs' / 'parameters.md'

HEADER = """# Parameters

Written by `dev/parameters.py` from the dataclasses in `sparser_ros/config`; do not edit. The names
are those of the ROS parameters and of YAML files; `config/sparser.yaml` has all
in one file. Most users meet the first table only, experts the [reference](#expert-reference).
"""

EXPERT = """## Expert reference

All parameters by group; their defaults suit most robots. *Live* ones may change while the node runs
(`ros2 param set /sparser NAME VALUE`) and act from the next solve on; the others are read once, at
the start.
"""

FIRST = {
    'dimension': 'drones and slopes need 3',
    'robots': 'always',
    'radios': 'always: which radio rides where, and what is surveyed',
    'odometry_noise': 'your driver fills in covariances that mean something',
    'odometry.topic': 'your topics are named otherwise',
    'frames.base': 'your odometry has other frames (and `frames.odom`)',
    'ranges.inputs': 'your driver has its own messages ([drivers](drivers.md))',
    'ranges.sigma_m': 'many ranges are rejected, or none counts ([noise](noise.md#ranges))',
    'ranges.unknown_radios': 'there are radios about that are not yours',
    'odometry.sigma_m_per_sqrt_m': 'your wheels slip more or less ([noise](noise.md#odometry))',
    'odometry.sigma_rad_per_sqrt_rad': 'the same, of headings',
    'closures.inputs': 'you have loop closures',
    'fixes.topic': 'you have a satellite receiver, or tags that give positions',
    'stamps.timeout_s': 'odometry or ranges come late',
    'solver.robust.kernel': 'you want no measurement left out',
    'backend.observability.alert_limit_m': 'your operation bears less, or more: trust follows it',
    'backend.observability.integrity_risk': 'errors beyond that limit must be rarer',
    'calibration.live': 'radios were not calibrated ([calibration](tutorials/calibration.md))',
    'keyframes.max_count': 'robots drive for days',
    'node.map_file': 'the site has a saved map ([recovery](recovery.md))',
}
"""The parameters that users meet, each with the reason to set it."""

ENTRIES = (
    ('radios.NAME', 'One radio, by the name that range messages give it.', RadioSpec),
    ('ranges.inputs.NAME', 'One source of ranges; the name is free.', RangeInput),
    ('sightings.inputs.NAME', 'One source of landmark sightings; the name is free.', SightingInput),
    ('closures.inputs.NAME', 'One source of loop closures; the name is free.', ClosureInput),
    ('heights.inputs.NAME', 'One source of heights; the name is free.', HeightInput),
)


def cell(value: object) -> str:
    if value is None or value in ('', [], {}):
        return ''
    if isinstance(value, bool):
        value = str(value).lower()
    elif isinstance(value, float):
        value = f'{value:.15g}'
    return f'`{value}`'.replace('|', r'\|')


def allowed(option: FlatOption) -> str:
    """Choices or bounds."""
    info = option.info
    if info.choices is not None:
        return ', '.join(cell(choice) for choice in info.choices)
    lower = '' if info.lower is None else f'≥ {info.lower:g}'
    upper = '' if info.upper is None else f'≤ {info.upper:g}'
    return ', '.join(filter(None, (lower, upper)))


def table(options: list[FlatOption], *, live: bool = True) -> Iterator[str]:
    extra = ('live', '------') if live else ()
    yield '| name | default | unit | allowed | meaning |' + ''.join(f' {e} |' for e in extra[:1])
    yield '|------|---------|------|---------|---------|' + ''.join(f'{e}|' for e in extra[1:])
    for option in options:
        info = option.info
        cells = [cell(option.name), cell(option.default), info.unit, allowed(option),
                 info.doc.replace('|', r'\|').replace('<', '&lt;')]
        if live:
            cells.append('live' if info.live else '')
        yield '| ' + ' | '.join(cells) + ' |'


def first_page() -> Iterator[str]:
    options = {option.name: option for option in walk(SparserConfig)}
    yield '| name | default | set it when |'
    yield '|------|---------|-------------|'
    for name, reason in FIRST.items():
        yield f'| {cell(name)} | {cell(options[name].default)} | {reason} |'


def sections() -> Iterator[tuple[str, str, list[FlatOption]]]:
    """(name, description, options) of every group, the ungrouped options first."""
    hints = typing.get_type_hints(SparserConfig)
    options = list(walk(SparserConfig))
    yield 'Robots and radios', '', [o for o in options if '.' not in o.name]
    for item in dataclasses.fields(SparserConfig):
        if dataclasses.is_dataclass(kind := hints[item.name]):
            doc = (kind.__doc__ or '').split('\n\n')[0]
            yield f'`{item.name}`', doc, [o for o in options if o.name.startswith(item.name + '.')]


def page() -> str:
    lines = [HEADER, '## The first twenty', '', *first_page(), '', EXPERT]
    for name, doc, options in sections():
        lines += [f'### {name}', '', *([doc, ''] if doc else []), *table(options), '']
    for name, doc, kind in ENTRIES:
        lines += [f'### `{name}`', '', doc, '', *table(list(walk(kind)), live=False), '']
    return '\n'.join(lines)


if __name__ == '__main__':
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page(), encoding='utf-8')
