"""Ranges of any message, by paths to its fields (`ranges.range`, `covariance[0]` …)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ...config.inputs_config import PATH_STEP, RangeInput, radio_name
from ..decode import RangeSample, Refused, Sample, stamp

NAN = float('nan')


class FieldPath:
    """`a.b[0].c` as a function of a message; `[]` is the place of an entry in the list."""

    def __init__(self, text: str) -> None:
        self.steps: list[str | int | slice | None] = []
        for step in PATH_STEP.finditer(text):
            if step['name']:
                self.steps.append(step['name'])
            elif step['index']:
                self.steps.append(int(step['index']))
            elif step['entry'] is not None:
                self.steps.append(None)
            else:
                first, last, stride = (
                    int(step[key]) if step[key] else None for key in ('first', 'last', 'stride'))
                self.steps.append(slice(first, last, stride))

    def fault(self, message: Any) -> str:
        """Which field of a message does not exist, and which there are, in words."""
        for step in self.steps:
            if isinstance(step, str) and not hasattr(message, step):
                names: Iterable[str] = getattr(message, 'get_fields_and_field_types', dict)()
                names = names or getattr(message, '__dataclass_fields__', ())
                there = ', '.join(name for name in names if not name.startswith('_'))
                return f'{type(message).__name__.lstrip("_")} has no field {step!r}' + (
                    f'; it has {there}' if there else '')
            if not isinstance(step, str):
                break
            message = getattr(message, step)
        return 'no such entry'

    def __call__(self, message: Any, entry: int = 0) -> Any:
        """The value; AttributeError or IndexError where the path does not exist."""
        for step in self.steps:
            message = getattr(message, step) if isinstance(step, str) \
                else message[entry if step is None else step]
        return message


class Fields:
    """The adapter `fields`: one message, or a list in it, with a range each.

    Paths are looked up in the list's element first and then in the message, so that a list of
    ranges may share one source or stamp; an array of numbers has no fields, and its elements are
    the ranges where no path says otherwise. `sigma` is a standard deviation, `variance` its
    square; both are in units of the message. `los` holds the values of `UwbRange.los`; `nlos` is
    true or non-zero without line of sight.
    """

    def __init__(self, options: RangeInput, robot: str = '') -> None:
        self._paths = {name: FieldPath(text) for name, text in options.fields.items()}
        if options.targets:
            self._paths.setdefault('range', FieldPath(''))
        self._source_format = options.source_format or options.radio_format or '{id}'
        self._target_format = options.target_format or options.radio_format or '{id}'
        self._scale = options.scale
        self._source = options.source or robot
        self._targets = options.targets

    def __call__(self, msg: Any, received_ns: int) -> Iterator[Sample]:
        """The ranges of one message."""
        elements = [msg]
        if 'list' in self._paths:
            try:
                elements = list(self._paths['list'](msg))
            except (AttributeError, IndexError, TypeError):
                yield Refused('ranges', 'unreadable',
                              f'fields.list: {self._paths["list"].fault(msg)}')
                return
        for entry, element in enumerate(elements):
            if self._targets and not any(self._targets[entry:entry + 1]):
                yield Refused('ranges', 'no_name')
                continue
            # Numbers of numpy have fields of their own, such as `data`.
            try:
                yield self._sample(_plain(element), entry, msg, received_ns)
            except (AttributeError, IndexError, TypeError, ValueError, OverflowError) as error:
                detail = self._fault(element, entry, msg) or str(error)
                yield Refused('ranges', 'unreadable', detail)

    def _fault(self, element: Any, entry: int, msg: Any) -> str:
        """The first path that leads nowhere, in words; '' = all of them lead to something."""
        for name in self._paths:
            if name != 'list':
                try:
                    self._value(name, element, entry, msg)
                except (AttributeError, IndexError, TypeError):
                    return f'fields.{name}: {self._paths[name].fault(element)}'
        return ''

    def _value(self, name: str, element: Any, entry: int, msg: Any, default: Any = None) -> Any:
        path = self._paths.get(name)
        if path is None:
            return default
        if path.steps and isinstance(element, (int, float, str)):
            return path(msg, entry)
        try:
            return path(element, entry)
        except (AttributeError, IndexError):
            if element is msg:
                raise
            return path(msg, entry)

    def _sample(self, element: Any, entry: int, msg: Any, received_ns: int) -> RangeSample:
        def value(name: str, default: Any = None) -> Any:
            return self._value(name, element, entry, msg, default)

        variance = float(value('variance', NAN)) * self._scale**2
        if 'sigma' in self._paths:
            variance = (float(value('sigma')) * self._scale) ** 2
        los = int(value('los', 0))
        if 'nlos' in self._paths:
            los = 2 if value('nlos') else 1
        source = self._source if 'source' not in self._paths else radio_name(
            self._source_format, _plain(value('source')))
        target = self._targets[entry] if self._targets else radio_name(
            self._target_format, _plain(value('target')))
        return RangeSample(
            source, target, self._stamp(element, entry, msg), received_ns,
            float(value('range')) * self._scale, variance, '',
            float(value('first_path_rssi', NAN)), float(value('rx_rssi', NAN)), los)

    def _stamp(self, element: Any, entry: int, msg: Any) -> int:
        if 'stamp' in self._paths:
            value = self._value('stamp', element, entry, msg)
            if hasattr(value, 'nanosec'):
                return stamp(value)
            # Integers count nanoseconds, floats seconds.
            return value if isinstance(value, int) else round(float(value) * 1e9)
        for holder in (element, msg):
            header = getattr(holder, 'header', None)
            if header is not None:
                return stamp(header.stamp)
        return 0


def _plain(value: Any) -> Any:
    """A number of an array as one of Python."""
    return value.item() if hasattr(value, 'item') else value
