"""Recorded messages whose definition is not the one installed here.

`sensor_msgs/Range`, for one, gained a field in Jazzy: the bytes of an older recording are no such
message any more, and a subscriber would drop them without a word.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from ..config import ConfigError
from ..io.bag import BagMessage


def message_type(name: str) -> Any:
    """The class of `package/msg/Name`; ConfigError where it is not installed."""
    package, _, rest = name.partition('/')
    module, _, kind = rest.rpartition('/')
    try:
        return getattr(importlib.import_module(f'{package}.{module or "msg"}'), kind)
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f'message type {name} is not available ({error}); install the package {package} and '
            'source its workspace') from None


def same_definition(name: str, definitions: dict[str, Any]) -> bool:
    """Whether a recorded type, and every type in it, has the fields of the installed one.

    `definitions` are those of rosbags: {type: (constants, [(field, description)])}.
    """
    if name not in definitions:
        return True
    fields = definitions[name][1]
    if [field for field, _ in fields] != list(message_type(name).get_fields_and_field_types()):
        return False
    return all(
        same_definition(inner, definitions)
        for _, description in fields if (inner := _inner_type(description)))


def _inner_type(description: Any) -> str:
    """The message type in a field's description, through arrays; '' for primitives."""
    _, value = description
    if isinstance(value, str):
        return value
    inner = value[0]
    return _inner_type(inner) if isinstance(inner, tuple) else ''


def translated(recorded: BagMessage) -> Any:
    """The installed message with the fields that both definitions have; others keep defaults."""
    return _filled(message_type(recorded.msgtype)(), recorded.msg)


def _filled(target: Any, source: Any) -> Any:
    for name in target.get_fields_and_field_types():
        if hasattr(source, name):
            setattr(target, name, _value(getattr(source, name)))
    return target


def _value(value: Any) -> Any:
    if hasattr(value, '__msgtype__'):
        return _filled(message_type(value.__msgtype__)(), value)
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, list):
        return [_value(item) for item in value]
    return value
