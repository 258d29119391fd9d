"""What an operator asks for in names of radios, robots and beacons, as rulings on measurements."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ..backend.session.rulings import DOUBT, IGNORE, KINDS, Ruling
from ..config import ConfigError
from ..config.sparser import SparserConfig

REVIVE, ALL = 'revive', 'all'
_COUNTS = {'pair': (2, 2), 'closure': (1, 2)}
"""How many names a kind takes, where it is not one."""


def ruling_of(
    action: str, kind: str, names: Sequence[str], begin_ns: int, end_ns: int,
    config: SparserConfig, landmarks: Collection[str],
) -> Ruling:
    """The ruling that is asked for; ConfigError says what is wrong with it.

    `landmarks` are the names of the beacons in the graph. Names of radios are taken for the robot
    or beacon that they belong to: the graph knows no others.
    """
    if action not in (IGNORE, DOUBT, REVIVE):
        raise ConfigError(f'action {action!r}: expected {IGNORE}, {DOUBT} or {REVIVE}')
    if kind not in KINDS:
        extra = f' or {ALL}' if action == REVIVE else ''
        raise ConfigError(f'kind {kind!r}: expected {", ".join(KINDS)}{extra}')
    least, most = _COUNTS.get(kind, (1, 1))
    if not least <= len(names) <= most:
        wanted = str(least) if least == most else f'{least} or {most}'
        raise ConfigError(f'{kind} takes {wanted} names, not {len(names)}')
    if end_ns and end_ns < begin_ns:
        raise ConfigError('the stretch of time ends before it begins')
    if kind == 'odometry' and action == IGNORE:
        raise ConfigError(
            'odometry holds the path of its robot together: doubt it, or ignore the robot')
    ends = tuple(_end(kind, name, config, landmarks) for name in names)
    if kind == 'pair' and ends[0] == ends[1]:
        raise ConfigError(f'both radios are those of {ends[0]}')
    return Ruling(action, kind, ends, begin_ns, end_ns)


def any_end(name: str, config: SparserConfig, landmarks: Collection[str]) -> str:
    """The robot or beacon of a name, also that of its radio; ConfigError where there is none."""
    known = {*config.robots, *landmarks, *config.radio_specs()}
    known |= {spec.beacon for spec in config.radio_specs().values() if spec.beacon}
    if name and name not in known:
        raise ConfigError(f'no robot, beacon or radio {name!r}; there are: '
                          f'{", ".join(sorted(known))}')
    return end_of(name, config)


def end_of(name: str, config: SparserConfig) -> str:
    """The robot or beacon that a radio belongs to; any other name as it is."""
    radio = config.radio_specs().get(name)
    return name if radio is None or name in config.robots else radio.robot or radio.beacon


def _end(
    kind: str, name: str, config: SparserConfig, landmarks: Collection[str]
) -> str:
    beacons = {spec.beacon for spec in config.radio_specs().values() if spec.beacon} | {*landmarks}
    known = {*config.robots} if kind in ('closure', 'robot', 'odometry') else beacons
    if kind in ('radio', 'pair'):
        known = known | {*config.robots}
    found = name if name in known else end_of(name, config)
    if found not in known:
        nouns = {'closure': 'robot', 'odometry': 'robot', 'pair': 'radio'}
        raise ConfigError(
            f'no {nouns.get(kind, kind)} {name!r}; there are: {", ".join(sorted(known)) or "none"}')
    return found
