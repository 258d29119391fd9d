"""Ranges of any message, by paths to its fields (`ranges.range`, `covariance[0]` …)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ...config.inputs_config import RangeInput
from ..decode import RangeSample, Refused, Sample, stamp

NAN = float('nan')
TOKEN = re.compile(r'([A-Za-z_]\w*)|\[(-?\d+)\]')


class FieldPath:
    """`a.b[0].c` as a function of a message."""

    def __init__(self, text: str) -> None:
        self.steps: list[str | int] = [
            name or int(index) for name, index in TOKEN.findall(text)]

    def __call__(self, message: Any) -> Any:
        """The value; AttributeError or IndexError where the path does not exist."""
        for step in self.steps:
            message = getattr(message, step) if isinstance(step, str) else message[step]
        return message


class Fields:
    """The adapter `fields`: one message, or a list in it, with a range each.

    Paths are looked up in the list's element first and then in the message, so that a list of
    ranges may share one source or stamp. `sigma` is a standard deviation, `variance` its square;
    both are in units of the message. `los` holds the values of `UwbRange.los`; `nlos` is true or
    non-zero without line of sight.
    """

    def __init__(self, options: RangeInput, robot: str = '') -> None:
        self._paths = {name: FieldPath(text) for name, text in options.fields.items()}
        self._format = options.radio_format or '{id}'
        self._scale = options.scale
        self._robot = robot

    def __call__(self, msg: Any, received_ns: int) -> Iterator[Sample]:
        """The ranges of one message."""
        elements = [msg]
        if 'list' in self._paths:
            try:
                elements = list(self._paths['list'](msg))
            except (AttributeError, IndexError, TypeError):
                yield Refused('ranges', 'unreadable')
                return
        for element in elements:
            try:
                yield self._sample(element, msg, received_ns)
            except (AttributeError, IndexError, TypeError, ValueError):
                yield Refused('ranges', 'unreadable')

    def _value(self, name: str, element: Any, msg: Any, default: Any = None) -> Any:
        path = self._paths.get(name)
        if path is None:
            return default
        try:
            return path(element)
        except (AttributeError, IndexError):
            if element is msg:
                raise
            return path(msg)

    def _sample(self, element: Any, msg: Any, received_ns: int) -> RangeSample:
        def name(key: str) -> str:
            value = self._value(key, element, msg)
            return self._format.replace('{id}', str(value))

        variance = float(self._value('variance', element, msg, NAN)) * self._scale**2
        if 'sigma' in self._paths:
            variance = (float(self._value('sigma', element, msg)) * self._scale) ** 2
        los = int(self._value('los', element, msg, 0))
        if 'nlos' in self._paths:
            los = 2 if self._value('nlos', element, msg) else 1
        return RangeSample(
            name('source') if 'source' in self._paths else self._robot, name('target'),
            self._stamp(element, msg), received_ns,
            float(self._value('range', element, msg)) * self._scale, variance, '',
            float(self._value('first_path_rssi', element, msg, NAN)),
            float(self._value('rx_rssi', element, msg, NAN)), los)

    def _stamp(self, element: Any, msg: Any) -> int:
        if 'stamp' in self._paths:
            value = self._value('stamp', element, msg)
            if hasattr(value, 'nanosec'):
                return stamp(value)
            # Integers count nanoseconds, floats seconds.
            return value if isinstance(value, int) else round(float(value) * 1e9)
        for holder in (element, msg):
            header = getattr(holder, 'header', None)
            if header is not None:
                return stamp(header.stamp)
        return 0
