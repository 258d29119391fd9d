"""One declaration per option: default, unit, bounds and description, used by every front."""

from __future__ import annotations

import difflib
import functools
import math
import typing
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
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


def option(default: Any, doc: str, **info: Any) -> Any:
    """Declare a dataclass field with everything a parameter table needs; `info` of `OptionInfo`."""
    metadata = {'option': OptionInfo(doc, **info)}
    if isinstance(default, (list, dict)):
        return field(default_factory=lambda: type(default)(default), metadata=metadata)
    return field(default=default, metadata=metadata)


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


def walk(config: Any, prefix: str = '') -> Iterator[FlatOption]:
    """Yield every option of a config dataclass, nested groups flattened to dotted names.

    `config`: the class, or an object of it, whose values are the defaults then.
    """
    defaults = config() if isinstance(config, type) else config
    hints = _hints(defaults.__class__)
    for item in fields(defaults):
        name, default = prefix + item.name, getattr(defaults, item.name)
        if is_dataclass(default):
            yield from walk(default, name + '.')
        else:
            yield FlatOption(name, hints[item.name], default, item.metadata['option'])


def check(option_: FlatOption, value: Any) -> Any:
    """Return `value` in the option's type, or raise ConfigError naming option and bound."""
    name, kind, info = option_.name, option_.type, option_.info
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    accepted = inner or (kind,)
    if value is None:
        if type(None) in accepted:
            return None
        raise ConfigError(f'{name}: a value is required ({info.doc})')
    if origin is list:
        if not isinstance(value, (list, tuple)):
            raise ConfigError(f'{name}: expected a list, got {value!r}')
        return [check(FlatOption(name, inner[0], None, info), item) for item in value]
    if origin is dict or kind is dict:
        if not isinstance(value, Mapping):
            raise ConfigError(f'{name}: expected a mapping, got {value!r}')
        # Mappings of mappings are checked by whoever reads them.
        return dict(value) if not inner or inner[1] in (dict, Any) else {
            key: check(FlatOption(f'{name}.{key}', inner[1], None, info), item)
            for key, item in dotted(value)}
    value = _scalar(name, accepted, value)
    if info.choices is not None and value not in info.choices and not isinstance(value, bool):
        raise ConfigError(f'{name}: {value!r} is not one of {", ".join(map(str, info.choices))}')
    if isinstance(value, (bool, str)):
        return value
    if info.lower is None and info.upper is None and math.isinf(value):
        raise ConfigError(f'{name}: must be finite, not {value}')
    if info.lower is not None and value < info.lower:
        raise ConfigError(f'{name}: {value} is below the least allowed value {info.lower}')
    if info.upper is not None and value > info.upper:
        raise ConfigError(f'{name}: {value} is above the greatest allowed value {info.upper}')
    return value


def _scalar(name: str, accepted: tuple[Any, ...], value: Any) -> Any:
    """A bool, number or text in the type that the option has; an int may stand for a float."""
    if isinstance(value, bool) and bool in accepted:
        return value
    if str in accepted and isinstance(value, (bool, int, float)):
        text: str = getattr(value, 'text', '')
        if text:  # a number where a name belongs, as it was written in a file
            return text
        also = f', as which YAML and ROS read {value:#x} as well' if type(value) is int else ''
        raise ConfigError(
            f'{name}: expected text, got {value!r}{also}: write the name in quotes, as it is sent')
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if float in accepted and number:
        if math.isnan(value):
            raise ConfigError(f'{name}: must not be NaN')
        return float(value)
    kinds = [kind for kind in accepted if kind is not type(None)]
    if isinstance(value, bool) or not isinstance(value, tuple(kinds)):
        raise ConfigError(f'{name}: expected {" or ".join(kind.__name__ for kind in kinds)}, '
                          f'got {value!r}')
    return int(value) if isinstance(value, int) else value


def dotted(
    entries: Mapping[Any, Any], fields_: Collection[str] = frozenset()
) -> Iterator[tuple[str, Any]]:
    """Entries by name; a name with dots, as `10.0.0.7`, was unfolded like that of a parameter.

    An entry is no mapping, or a mapping with one of `fields_`.
    """
    return flat(entries, lambda _, value: not value or bool(value.keys() & fields_) or (
        bool(fields_) and not all(isinstance(inner, Mapping) for inner in value.values())))


def build(cls: type[T], values: Mapping[str, Any], prefix: str = '') -> T:
    """Build a config dataclass from a nested or dotted mapping.

    Unknown names raise ConfigError naming the nearest option; every value is checked against
    its bounds. Errors give names with `prefix`.
    """
    defaults = cls()
    known = {o.name: o for o in walk(defaults, prefix)}
    given = dict(flat(values, lambda name, _: name in known, prefix))
    for name in given:
        if name not in known:
            # Without the prefix: all names are alike in that.
            own = [known_name.removeprefix(prefix) for known_name in known]
            near = difflib.get_close_matches(name.removeprefix(prefix), own, n=1)
            hint = f'; did you mean {prefix}{near[0]}?' if near else ''
            raise ConfigError(f'unknown parameter {name}{hint}')
    checked = {name: check(known[name], value) for name, value in given.items()}
    return _changed(defaults, checked, prefix)


def _changed(config: T, values: Mapping[str, Any], prefix: str) -> T:
    """A config with these values, by dotted name, in place of its own."""
    arguments: dict[str, Any] = {}
    for item in fields(config):  # type: ignore[arg-type]
        name, own = prefix + item.name, getattr(config, item.name)
        arguments[item.name] = (
            _changed(own, values, name + '.') if is_dataclass(own) else values.get(name, own))
    return type(config)(**arguments)


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


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Nested mappings merged; values of `over` replace those of `base`."""
    result = dict(base)
    for key, value in over.items():
        old = result.get(key)
        both = isinstance(old, Mapping) and isinstance(value, Mapping)
        result[key] = merged(old, value) if both else value  # type: ignore[arg-type]
    return result


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
            old = place.get(last)
            place[last] = merged(old if isinstance(old, dict) else {}, nested(value))
        else:
            place[last] = value
    return result
