"""One declaration per option: default, unit, bounds and description, used by every front."""

from __future__ import annotations

import difflib
import functools
import math
import typing
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from typing import Any, TypeVar

from .errors import ConfigError

T = TypeVar('T')


@dataclass(frozen=True)
class OptionInfo:
    """What is known of one option beside its type and default."""

    doc: str
    unit: str = ''
    lower: float | None = None
    upper: float | None = None
    choices: tuple[Any, ...] | None = None
    live: bool = False
    """True when the option may change while the node runs (applied at the next solve)."""


def option(
    default: Any,
    doc: str,
    *,
    unit: str = '',
    lower: float | None = None,
    upper: float | None = None,
    choices: tuple[Any, ...] | None = None,
    live: bool = False,
) -> Any:
    """Declare a dataclass field with everything a parameter table needs."""
    info = OptionInfo(doc, unit, lower, upper, choices, live)
    if isinstance(default, (list, dict)):
        return field(default_factory=lambda: type(default)(default), metadata={'option': info})
    return field(default=default, metadata={'option': info})


def section(cls: type[T]) -> T:
    """Declare a nested group of options."""
    return field(default_factory=cls)  # type: ignore[no-any-return]


def group_of(item: Any) -> type | None:
    """The dataclass of a nested group, which may be a subclass of the field's type."""
    factory = item.default_factory
    return factory if isinstance(factory, type) and is_dataclass(factory) else None


@dataclass(frozen=True)
class FlatOption:
    """An option under its dotted name, as ROS parameters and YAML files spell it."""

    name: str
    type: Any
    default: Any
    info: OptionInfo


@functools.cache
def _hints(cls: type) -> dict[str, Any]:
    """Types of the fields; Python evaluates their text anew each time, once for every radio."""
    return typing.get_type_hints(cls)


def walk(cls: type, prefix: str = '') -> Iterator[FlatOption]:
    """Yield every option of a config dataclass, nested groups flattened to dotted names."""
    hints = _hints(cls)
    for item in fields(cls):
        kind = group_of(item) or hints[item.name]
        name = prefix + item.name
        if is_dataclass(kind):
            yield from walk(kind, name + '.')  # type: ignore[arg-type]
            continue
        factory = item.default_factory
        default = item.default if factory is MISSING else factory()
        yield FlatOption(name, kind, default, item.metadata['option'])


def check(option_: FlatOption, value: Any) -> Any:
    """Return `value` in the option's type, or raise ConfigError naming option and bound."""
    info, name, kind = option_.info, option_.name, option_.type
    accepted = typing.get_args(kind) or (kind,)
    if value is None:
        if type(None) in accepted:
            return None
        raise ConfigError(f'{name}: a value is required ({info.doc})')
    if typing.get_origin(kind) in (tuple, list):
        return _checked_list(option_, value)
    if typing.get_origin(kind) is dict or kind is dict:
        return _checked_mapping(option_, value)
    value = _scalar(name, accepted, value)
    if not isinstance(value, bool):
        _check_bounds(info, name, value)
    return value


def _checked_list(option_: FlatOption, value: Any) -> Any:
    name, kind = option_.name, option_.type
    if not isinstance(value, (list, tuple)):
        raise ConfigError(f'{name}: expected a list, got {value!r}')
    element = FlatOption(name, typing.get_args(kind)[0], None, option_.info)
    return typing.get_origin(kind)(check(element, item) for item in value)  # type: ignore[misc]


def _checked_mapping(option_: FlatOption, value: Any) -> dict[str, Any]:
    """A mapping of checked values; mappings of mappings are checked by whoever reads them."""
    name = option_.name
    if not isinstance(value, Mapping):
        raise ConfigError(f'{name}: expected a mapping, got {value!r}')
    arguments = typing.get_args(option_.type)
    inner = arguments[1] if arguments else dict
    if inner in (dict, Any):
        return dict(value)
    return {key: check(FlatOption(f'{name}.{key}', inner, None, option_.info), item)
            for key, item in dotted(value)}


def dotted(
    entries: Mapping[Any, Any], fields_: Collection[str] = frozenset()
) -> Iterator[tuple[str, Any]]:
    """Entries by name; a name with dots, as `10.0.0.7`, was unfolded like that of a parameter.

    An entry is no mapping, or a mapping with one of `fields_`.
    """
    return flat(entries, lambda _, value: not value or bool(value.keys() & fields_) or (
        bool(fields_) and not all(isinstance(inner, Mapping) for inner in value.values())))


def _scalar(name: str, accepted: tuple[Any, ...], value: Any) -> Any:
    """A bool, number or text in the type that the option has; an int may stand for a float."""
    if isinstance(value, bool) and bool in accepted:
        return value
    wrong = ConfigError(f'{name}: expected {_spell(accepted)}, got {value!r}')
    if str in accepted and isinstance(value, (bool, int, float)):
        return _name(name, value)
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise wrong
    if float in accepted and not isinstance(value, str):
        if math.isnan(value):
            raise ConfigError(f'{name}: must not be NaN')
        return float(value)
    if not isinstance(value, tuple(t for t in accepted if t is not bool)):
        raise wrong
    return int(value) if isinstance(value, int) else value


def _name(name: str, value: bool | float) -> str:
    """A number where a name belongs, as it was written in a file."""
    text: str = getattr(value, 'text', '')
    if text:
        return text
    also = f', as which YAML and ROS read {value:#x} as well' if type(value) is int else ''
    raise ConfigError(
        f'{name}: expected text, got {value!r}{also}: write the name in quotes, as it is sent')


def _check_bounds(info: OptionInfo, name: str, value: Any) -> None:
    """Raise ConfigError where a value is no allowed choice or beyond a bound."""
    if info.choices is not None and value not in info.choices:
        raise ConfigError(f'{name}: {value!r} is not one of {", ".join(map(str, info.choices))}')
    if isinstance(value, str):
        return
    if info.lower is not None and value < info.lower:
        raise ConfigError(f'{name}: {value} is below the least allowed value {info.lower}')
    if info.upper is not None and value > info.upper:
        raise ConfigError(f'{name}: {value} is above the greatest allowed value {info.upper}')


def _spell(accepted: tuple[Any, ...]) -> str:
    return ' or '.join(getattr(t, '__name__', str(t)) for t in accepted if t is not type(None))


def build(cls: type[T], values: Mapping[str, Any], prefix: str = '') -> T:
    """Build a config dataclass from a nested or dotted mapping.

    Unknown names raise ConfigError naming the nearest option; every value is checked against
    its bounds.
    """
    known = {o.name: o for o in walk(cls)}
    given = dict(flat(values, lambda name, _: name in known))
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f'; did you mean {prefix}{near[0]}?' if near else ''
            raise ConfigError(f'unknown parameter {prefix}{name}{hint}')
    checked = {name: check(known[name], value) for name, value in given.items()}
    return _assemble(cls, checked, '')


def flat(
    values: Mapping[Any, Any],
    whole: Callable[[str, Mapping[Any, Any]], bool] = lambda name, value: False, prefix: str = '',
) -> Iterator[tuple[str, Any]]:
    """Nested values under dotted names; mappings of which `whole(name, mapping)` stay together."""
    for key, value in values.items():
        name = f'{prefix}{key}'
        if isinstance(value, Mapping) and not whole(name, value):
            yield from flat(value, whole, name + '.')
        else:
            yield name, value


def nested(values: Mapping[Any, Any]) -> dict[str, Any]:
    """Dotted names unfolded and keys spelled as text.

    The fields of radios and inputs may hold dots themselves (field paths), but only as values.
    """
    result: dict[str, Any] = {}
    for key, value in values.items():
        *path, last = str(key).split('.')
        place = result
        for part in path:
            place = place.setdefault(part, {})
            if not isinstance(place, dict):
                raise ConfigError(f'{key}: {part!r} is both a value and a group')
        if isinstance(value, Mapping):
            inner = nested(value)
            old = place.get(last)
            place[last] = {**old, **inner} if isinstance(old, dict) else inner
        else:
            place[last] = value
    return result


def _assemble(cls: type, checked: Mapping[str, Any], prefix: str) -> Any:
    hints = _hints(cls)
    arguments: dict[str, Any] = {}
    for item in fields(cls):
        name = prefix + item.name
        group = group_of(item)
        if group is not None or is_dataclass(hints[item.name]):
            arguments[item.name] = _assemble(group or hints[item.name], checked, name + '.')
        elif name in checked:
            arguments[item.name] = checked[name]
    return cls(**arguments)
