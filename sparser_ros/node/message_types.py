"""Message classes by the name of their type, loaded when a configuration or a bag names them."""

from __future__ import annotations

import importlib
from typing import Any

from rclpy.serialization import deserialize_message

from ..config import ConfigError


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


def deserialise(name: str, data: bytes) -> Any:
    """The object that CDR bytes of a message type hold; raises whatever the middleware does."""
    return deserialize_message(data, message_type(name))
