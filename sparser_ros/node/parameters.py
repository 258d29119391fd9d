"""ROS parameters derived from the configuration dataclasses: declared, checked, kept current.

Files of the command line are read beside ROS: whose they are, and names as they were written.
"""

from __future__ import annotations

import difflib
import math
import sys
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from rcl_interfaces.msg import (
    FloatingPointRange,
    IntegerRange,
    ParameterDescriptor,
    SetParametersResult,
)
from rclpy.exceptions import ParameterException
from rclpy.node import Node
from rclpy.parameter import Parameter

from ..config import ConfigError, FlatOption, build, check, walk
from ..config.option import flat, merged, nested
from ..config.sparser import ROS_OWN, SparserConfig
from ..config.yaml_file import YamlFile

OUR_SHARE = 0.5
"""A block of another node of which at least this share are names of ours was meant for us."""


class Parameters:
    """The node's parameters as one `SparserConfig`.

    Every option becomes a parameter; mappings such as `radios` take any names below them.
    Unknown names, wrong types and values out of bounds raise ConfigError at the start, and are
    refused with the reason afterwards. Only live options can change while the node runs.
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        self._options = {option.name: option for option in walk(SparserConfig)}
        self.changed: Callable[[SparserConfig], None] | None = None
        """Called after every change of a live option."""
        self._written, self.hints = read_files(
            sys.argv, node.get_fully_qualified_name(), self._options)
        overrides = dict(node._parameter_overrides)
        refuse_unknown(overrides, self._options)
        self._values: dict[str, Any] = {}
        for option in self._options.values():
            if _is_mapping(option):
                self._declare_mapping(option, overrides)
            else:
                self._declare(option, overrides.get(option.name))
        self.config = build(SparserConfig, self._values)
        node.add_on_set_parameters_callback(self._validate)
        # Humble has no callback after the fact: there a change applies while it is checked.
        self._apply_at_once = not hasattr(node, 'add_post_set_parameters_callback')
        if not self._apply_at_once:
            node.add_post_set_parameters_callback(self._apply)

    def _declare(self, option: FlatOption, override: Parameter | None) -> None:
        if override is not None and _says_nothing(option, override.value):
            # What `ros2 param dump` writes for an option without a value.
            del self._node._parameter_overrides[option.name]
            override = None
        if override is not None:
            _refuse_whole_number(option, override)
            value = check(option, self._as_written(option, option.name, override.value))
            if option.type in (str, list[str]):
                self._node._parameter_overrides[option.name] = Parameter(option.name, value=value)
        try:
            parameter = self._node.declare_parameter(
                option.name, option.default, descriptor(option))
        except ParameterException as error:
            raise ConfigError(f'{option.name}: {error}') from None
        if parameter.value is not None:
            self._values[option.name] = _plain(parameter.value)

    def _as_written(self, option: FlatOption, name: str, value: Any) -> Any:
        """A value as its file spells it: ROS reads the name 0x6958 as the number 26968."""
        value, written = _plain(value), self._written.get(name)
        may_be_name = _is_mapping(option) or option.type in (str, list[str])
        if value == written or (may_be_name and _is_text(written) and not _is_text(value)):
            return written
        return value

    def _declare_mapping(self, option: FlatOption, overrides: Mapping[str, Parameter]) -> None:
        prefix = option.name + '.'
        entries: dict[str, Any] = {}
        for name, parameter in sorted(overrides.items()):
            if not name.startswith(prefix):
                continue
            about = ParameterDescriptor(
                description=option.info.doc, read_only=True, dynamic_typing=True)
            self._node.declare_parameter(name, parameter.value, about)
            entries[name.removeprefix(prefix)] = self._as_written(option, name, parameter.value)
        if entries:
            self._values[option.name] = nested(entries)

    def _validate(self, parameters: Sequence[Parameter]) -> SetParametersResult:
        try:
            self._with(parameters)
            if self._apply_at_once:
                self._apply(parameters)
        except ConfigError as error:
            return SetParametersResult(successful=False, reason=str(error))
        return SetParametersResult(successful=True)

    def _with(self, parameters: Sequence[Parameter]) -> tuple[dict[str, Any], SparserConfig]:
        """All values, and the configuration of them, after a change."""
        values = dict(self._values)
        for parameter in parameters:
            option = self._options.get(parameter.name)
            if option is not None:
                values[option.name] = check(option, _plain(parameter.value))
        return values, build(SparserConfig, values)

    def _apply(self, parameters: Sequence[Parameter]) -> None:
        values, config = self._with(parameters)
        if values == self._values:
            return
        for name in sorted(name for name in values if values[name] != self._values.get(name)):
            self._node.get_logger().info(
                f'{name}: {values[name]!r} from now on, {self._values.get(name)!r} before')
        self._values, self.config = values, config
        if self.changed is not None:
            self.changed(self.config)


def descriptor(option: FlatOption) -> ParameterDescriptor:
    """What ROS tools show of an option: description, unit, bounds, choices, live or not."""
    info = option.info
    unit = f' [{info.unit}]' if info.unit else ''
    accepted = typing.get_args(option.type) or (option.type,)
    about = ParameterDescriptor(
        description=info.doc + unit,
        read_only=not info.live,
        # ROS has no empty list of a type and no null: those options check their own type.
        dynamic_typing=isinstance(option.default, list) or type(None) in accepted,
    )
    if info.choices is not None:
        about.additional_constraints = 'one of ' + ', '.join(map(str, info.choices))
    if info.lower is None and info.upper is None:
        return about
    if option.type is int:
        about.integer_range = [IntegerRange(
            from_value=int(-2**63 if info.lower is None else info.lower),
            to_value=int(2**63 - 1 if info.upper is None else info.upper), step=1)]
    elif option.type is float:
        about.floating_point_range = [FloatingPointRange(
            from_value=float(-math.inf if info.lower is None else info.lower),
            to_value=float(math.inf if info.upper is None else info.upper))]
    return about


def refuse_unknown(overrides: Iterable[str], options: Mapping[str, FlatOption]) -> None:
    """Raise ConfigError listing every override that names no parameter, with the nearest one."""
    mappings = tuple(o.name + '.' for o in options.values() if _is_mapping(o))
    faults = []
    for name in overrides:
        if name in options or name.partition('.')[0] in ROS_OWN or name.startswith(mappings):
            continue
        near = difflib.get_close_matches(name, options, n=1)
        faults.append(name + (f' (did you mean {near[0]}?)' if near else ''))
    if faults:
        raise ConfigError('unknown parameter: ' + ', '.join(faults))


def _says_nothing(option: FlatOption, value: Any) -> bool:
    """Whether a value stands for none; the parser of rcl takes `null` for a text."""
    return value is None or (value == 'null' and option.default in (None, []))


def _is_mapping(option: FlatOption) -> bool:
    return option.type is dict or typing.get_origin(option.type) is dict


def _refuse_whole_number(option: FlatOption, override: Parameter) -> None:
    if option.type is float and override.type_ == Parameter.Type.INTEGER:
        raise ConfigError(
            f'{option.name}: ROS parameters are strict about types: write {override.value}.0')


def _plain(value: Any) -> Any:
    return list(value) if hasattr(value, 'tolist') or isinstance(value, tuple) else value


def _is_text(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, list) and any(
        isinstance(item, str) for item in value))


def read_files(
    arguments: Sequence[str], node: str, options: Mapping[str, FlatOption]
) -> tuple[dict[str, Any], list[str]]:
    """What ROS does not tell of the files in a command line; `node` is the full name of this one.

    Values for this node by dotted name, whose numbers remember how they were written; and what to
    say of files in which nothing is for this node.

    ConfigError for a file that ROS reads without a word although it cannot mean that: a name that
    stands there twice, or our parameters under the name of another node.
    """
    values: dict[str, Any] = {}
    hints = []
    for flag, path in pairwise(arguments):
        if flag != '--params-file' or not Path(path).is_file():
            continue
        file = YamlFile(path)
        blocks = file.blocks(node)
        for block in blocks:
            values = merged(values, block.values)
        names = [block.name for block in blocks]
        if not blocks or any(block.fits(node) for block in blocks):
            continue
        ours = [name for name in names if _is_ours(file.names(name), options)]
        if ours:
            raise ConfigError(
                f'{path}: parameters of {", ".join(ours)} are not for this node, which is called '
                f'{node}: call their block {node} or /**')
        hints.append(f'nothing in {path} is for this node, {node}: it names {", ".join(names)}; '
                     'its values are not used')
    return dict(flat(values)), hints


def _is_ours(names: Sequence[str], options: Mapping[str, FlatOption]) -> bool:
    """Whether the parameters of a block are ours, though its name is not."""
    tops = {name.split('.')[0] for name in options}
    own = [name for name in names if name.split('.')[0] not in ROS_OWN]
    ours = [name for name in own if name.split('.')[0] in tops]
    return bool(own) and len(ours) >= OUR_SHARE * len(own)
