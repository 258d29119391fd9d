"""YAML files: names stay as written, and what is wrong is named with its line.

YAML 1.1 reads 81:00 as 4860 and 0x6958 as 26968. Here a key is text whatever it looks like, and a
number remembers how it was written, for options that are names.
"""

from __future__ import annotations

import math
import os
import re
import stat
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from yaml.composer import ComposerError
from yaml.constructor import ConstructorError, SafeConstructor
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from .errors import ConfigFileError

PARAMETERS = 'ros__parameters'
NODE = 'sparser'
"""Name of the node unless it is renamed."""
MOST_BYTES = 64_000_000
MOST_VALUES = 2_000_000
"""Bounds of a file. A beacon takes 9 values, 80 bytes."""


class WrittenInt(int):
    """A whole number that remembers how it was written, such as 0x6958."""

    text = ''


class WrittenFloat(float):
    """A number that remembers how it was written, such as 1e52."""

    text = ''


class _Loader(yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader):  # type: ignore[misc]
    """A loader with text keys and numbers as written; dates and 81:00 are text."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Hashable, Any]:
        """Refuses a name that stands there twice, but only of mappings that are used."""
        if not isinstance(node, MappingNode):
            return super().construct_mapping(node)
        lines: dict[str, int] = {}
        for key, _ in node.value:
            if not isinstance(key, ScalarNode):
                raise ConstructorError(
                    None, None, 'expected a name, got a list or mapping', key.start_mark)
            line = key.start_mark.line + 1
            if key.value in lines:
                raise ConstructorError(
                    None, None, f'{key.value!r} stands there twice, in line {lines[key.value]} '
                    f'and in line {line}: keep one', node.start_mark)
            lines[key.value] = line
        self.flatten_mapping(node)
        return {key.value: self.construct_object(value, deep=True) for key, value in node.value}

    def number(self, node: Any) -> Any:
        """An int or float with its text."""
        kind: Any = WrittenInt if node.tag.endswith(':int') else WrittenFloat
        read = SafeConstructor.construct_yaml_int if kind is WrittenInt \
            else SafeConstructor.construct_yaml_float
        try:
            value = kind(read(self, node))
        except ValueError:
            raise ConstructorError(
                None, None, f'{node.value[:40]!r} is no number', node.start_mark) from None
        value.text = node.value
        return value


for _tag in ('int', 'float'):
    _Loader.add_constructor(f'tag:yaml.org,2002:{_tag}', _Loader.number)
for _tag, _pattern, _first in (
    # The spellings that ROS' parser reads as numbers as well.
    ('int', r'[-+]?(0b[01_]+|0x[0-9a-fA-F_]+|0[0-7_]*|[1-9][0-9_]*)', '-+0123456789'),
    ('float', r'[-+]?([0-9][0-9_]*\.[0-9_]*([eE][-+]?[0-9]+)?|[0-9]+[eE][-+]?[0-9]+'
     r'|\.[0-9][0-9_]*([eE][-+]?[0-9]+)?|\.(inf|Inf|INF))|\.(nan|NaN|NAN)', '-+0123456789.'),
    ('bool', 'yes|Yes|YES|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF',
     'yYnNtTfFoO'),
    ('null', '~|null|Null|NULL|', ['~', 'n', 'N', '']),
    ('merge', '<<', '<'),
):
    _Loader.add_implicit_resolver(
        f'tag:yaml.org,2002:{_tag}', re.compile(f'(?:{_pattern})\\Z'), list(_first))


class _Dumper(yaml.SafeDumper):
    """Writes text in quotes where YAML or ROS would read something else without them."""

    def ignore_aliases(self, data: Any) -> bool:
        """ROS' parser knows no aliases."""
        return True


_NOT_PLAIN = re.compile(
    r'[-+]?[.]?[0-9].*|[-+]?[.]?(inf|infinity|nan)|y|n|yes|no|on|off|true|false|null|~|',
    re.IGNORECASE | re.DOTALL)


def _text(dumper: _Dumper, value: str) -> Any:
    style = "'" if _NOT_PLAIN.fullmatch(value) else None
    return dumper.represent_scalar('tag:yaml.org,2002:str', value, style=style)


def _number(dumper: _Dumper, value: WrittenInt | WrittenFloat) -> Any:
    kind = 'int' if isinstance(value, int) else 'float'
    return ScalarNode(f'tag:yaml.org,2002:{kind}', value.text or repr(value))


_Dumper.add_representer(str, _text)
_Dumper.add_representer(WrittenInt, _number)
_Dumper.add_representer(WrittenFloat, _number)


def text_of(values: Any) -> str:
    """Values as YAML that this module and ROS read back as they are."""
    return yaml.dump(  # type: ignore[no-any-return]
        values, Dumper=_Dumper, sort_keys=False, default_flow_style=None, width=100)


@dataclass(frozen=True)
class Block:
    """The parameters of one node in a file."""

    name: str
    """Full name, wildcards `*` (one part) and `**` (any number of parts) included."""
    values: dict[str, Any]

    def fits(self, node: str) -> bool:
        """Whether the name is that of a node (full name)."""
        pattern = ''.join(
            '(/[^/]+)*' if part == '**' else '/[^/]+' if part == '*' else '/' + re.escape(part)
            for part in self.name.strip('/').split('/'))
        return re.fullmatch(pattern, node) is not None

    def is_for(self, node: str) -> bool:
        """The same, or, where `node` is empty, for any node that is called `sparser`."""
        return self.fits(node) if node else self.name.rsplit('/', 1)[-1] in (NODE, '*', '**')


class YamlFile:
    """A YAML file; ConfigFileError names file, line and what to do."""

    def __init__(self, path: str | Path, *, most_bytes: int = 0) -> None:
        """`most_bytes`: only a regular file, and of no more; who names it may be anybody, and a
        device or a pipe is not waited for."""
        self.path = path
        self.text = self._read(bool(most_bytes), most_bytes or MOST_BYTES)
        try:
            self._loader = _Loader(self.text)
            self._root = self._loader.get_single_node()
            size = _size(self._root, {})
        except yaml.YAMLError as error:
            raise self._fault(error) from None
        except RecursionError:
            raise ConfigFileError(path, 1, 'nested too deeply') from None
        if size > MOST_VALUES:
            raise ConfigFileError(path, None, f'more than {MOST_VALUES} values (aliases count as '
                                  'often as they are used)')

    def _read(self, regular: bool, most_bytes: int) -> str:
        try:
            # Before it is opened: that alone starts some devices, and waits for who writes a pipe.
            if regular and not stat.S_ISREG(os.stat(self.path).st_mode):
                raise ConfigFileError(
                    self.path, None, 'a folder, device, pipe or socket: expected a YAML file')
            with open(self.path, 'rb') as stream:
                data = stream.read(most_bytes + 1)
        except (OSError, ValueError) as error:  # ValueError: a zero byte in the name
            text = getattr(error, 'strerror', None) or error
            raise ConfigFileError(self.path, None, f'cannot be read: {text}') from None
        if len(data) > most_bytes:
            raise ConfigFileError(
                self.path, None, f'larger than {most_bytes // 1_000_000} MB: expected a YAML file')
        try:
            return data.decode('utf-8-sig')
        except UnicodeDecodeError as error:
            line = data.count(b'\n', 0, error.start) + 1
            raise ConfigFileError(
                self.path, line, f'byte 0x{data[error.start]:02x} is no UTF-8 text: expected a '
                'YAML file, saved as UTF-8') from None

    def _fault(self, error: Exception) -> ConfigFileError:
        mark = getattr(error, 'problem_mark', None)
        problem = getattr(error, 'problem', None) or getattr(error, 'reason', None) or error
        if not isinstance(error, (ComposerError, ConstructorError)):
            problem = f'not YAML: {problem}'
        return ConfigFileError(self.path, mark.line + 1 if mark else None, str(problem))

    def _built(self, node: Node | None) -> Any:
        if node is None:
            return None
        try:
            return self._loader.construct_document(node)
        except yaml.YAMLError as error:
            raise self._fault(error) from None

    @property
    def value(self) -> Any:
        """The whole document; None where it is empty."""
        return self._built(self._root)

    def blocks(self, node: str = '') -> list[Block]:
        """What stands below `ros__parameters`; those of other nodes than `node` have no values.

        `node` is a full name; empty = any node that is called `sparser`. ConfigFileError where a
        block of this node stands there twice.
        """
        blocks: list[Block] = []
        lines: dict[str, int] = {}
        for name, line, values in _named_blocks(self._root, ''):
            block = Block(name, {})
            if block.is_for(node):
                if name in lines:
                    raise ConfigFileError(
                        self.path, line, f'{name!r} stands there twice, in line {lines[name]} '
                        f'and in line {line}: keep one')
                lines[name] = line
                built = self._built(values)
                if built is not None and not isinstance(built, dict):
                    raise ConfigFileError(
                        self.path, values.start_mark.line + 1, f'{PARAMETERS} must be a mapping')
                block = Block(name, built or {})
            blocks.append(block)
        return blocks

    def names(self, name: str = '') -> list[str]:
        """Dotted names of all parameters of a block; of the file outside of blocks without one."""
        if name:
            return [key for block, _, values in _named_blocks(self._root, '') if block == name
                    for key in _leaves(values, '')]
        pairs = self._root.value if isinstance(self._root, MappingNode) else ()
        return [str(key.value) for key, value in pairs if not list(
            _named_blocks(MappingNode('', [(key, value)]), ''))]


def _size(node: Any, known: dict[int, float]) -> float:
    """How many values a node stands for; infinite for one that contains itself."""
    if id(node) not in known:
        known[id(node)] = math.inf
        parts = node.value if isinstance(node, (MappingNode, SequenceNode)) else ()
        if isinstance(node, MappingNode):
            parts = [part for pair in parts for part in pair]
        known[id(node)] = 1 + sum(_size(part, known) for part in parts)
    return known[id(node)]


def _named_blocks(node: Node | None, prefix: str) -> Iterator[tuple[str, int, Node]]:
    """(full name, line, what stands below `ros__parameters`) of the nodes in a file."""
    for key, value in node.value if isinstance(node, MappingNode) else ():
        if not isinstance(key, ScalarNode) or not isinstance(value, MappingNode):
            continue
        name = f'{prefix}/{key.value.strip("/")}'
        inner = [values for own, values in value.value if own.value == PARAMETERS]
        if inner:
            yield from ((name, key.start_mark.line + 1, values) for values in inner)
        else:
            yield from _named_blocks(value, name)


def _leaves(node: Node, prefix: str) -> Iterator[str]:
    for key, value in node.value if isinstance(node, MappingNode) else ():
        if isinstance(value, MappingNode) and value.value:
            yield from _leaves(value, f'{prefix}{key.value}.')
        else:
            yield f'{prefix}{key.value}'
