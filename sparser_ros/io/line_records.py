"""Line records of graph files: one keyword and a fixed number of fields per line.

Fields are converted a whole column at a time; only when that fails are lines looked at one by
one, to name the first faulty line and field.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from ..array_types import Array, Index, Mask
from ..config import FormatError
from ..graph.table import MOST_LENGTH_M

LONGEST_M = MOST_LENGTH_M / 10
"""Lengths in a file lie below this: what two of them make is none that a graph refuses."""
LARGEST = MOST_LENGTH_M**2
"""Weights, variances and information in a file lie below this, and weights above its inverse."""
COMMENT = re.compile(r'(?<!\S)#.*')
"""From a # at the start of a line or after a space: a name may hold one."""


@dataclass(frozen=True)
class Block:
    """All records of one keyword, in file order."""

    path: Path
    fields: tuple[str, ...]
    """Names of the fields; the first is the keyword itself."""
    lines: list[int]
    """Line number of every record, from 1."""
    tokens: list[str]
    """Fields of all records, one after the other."""
    without_information: tuple[int, ...] = ()
    """Line numbers of the records that lack an information matrix: the identity stands for it."""

    def __len__(self) -> int:
        return len(self.lines)

    @property
    def tag(self) -> str:
        return self.fields[0]

    def place(self, *names: str) -> int:
        """Number of the field with one of these names."""
        return next(k for k, name in enumerate(self.fields) if name in names)

    def words(self, field: int) -> list[str]:
        """One text field of every record."""
        return self.tokens[field :: len(self.fields)]

    def numbers(self, first: int, count: int, most: float = LONGEST_M) -> Array:
        """(n, count): numbers below `most` of adjacent fields; FormatError at the first bad."""
        values = np.empty((len(self), count))
        for k in range(count):
            values[:, k] = self.converted(float, first + k, 'a number')
        good = np.abs(values) < most
        if not np.all(good):
            row, k = np.argwhere(~good)[0]
            what = f'a number below {most:g}' if np.isfinite(values[row, k]) else (
                'a finite number')
            self.expected(what, int(row), first + int(k))
        return values

    def integers(self, field: int) -> Index:
        """(n,): one field of non-negative integers."""
        values = self.converted(int, field, 'an integer')
        if min(values) < 0:
            self.expected('an integer >= 0', values.index(min(values)), field)
        if max(values) >= 2**63:
            self.expected('an integer below 2^63', values.index(max(values)), field)
        return np.array(values, dtype=np.int64)

    def converted(self, kind: Callable[[str], Any], field: int, what: str) -> list[Any]:
        """One field of every record; FormatError at the first that `kind` refuses."""
        words = self.words(field)
        try:
            return list(map(kind, words))
        except ValueError:
            for row, word in enumerate(words):
                try:
                    kind(word)
                except ValueError:
                    self.expected(what, row, field)
            raise

    def weights(self, values: Array) -> Array:
        """The weights (n,) as they are; FormatError at the first that no noise can have."""
        self.require(
            (values > 1 / LARGEST) & (values < LARGEST),
            f'expected standard deviations from {LARGEST**-0.5:g} to {LARGEST**0.5:g}')
        return values

    def expected(self, what: str, row: int, field: int) -> NoReturn:
        """Raise FormatError: the field of a record is not what it must be."""
        got = self.tokens[row * len(self.fields) + field]
        self.fail(row, f'expected {what} for {self.fields[field]}, got {got!r}')

    def fail(self, row: int, message: str) -> NoReturn:
        """Raise FormatError at a record's line."""
        raise FormatError(self.path, self.lines[row], f'{self.tag}: {message}')

    def require(self, good: Mask, message: str) -> None:
        """Raise FormatError at the first record for which `good` is false."""
        if not np.all(good):
            self.fail(int(np.argmin(good)), message)


@dataclass
class Lines:
    """The lines of one keyword, not yet taken apart."""

    numbers: list[int]
    texts: list[str]


def read_records(path: Path) -> dict[str, Lines]:
    """The lines of a file by keyword, without blank lines and comments."""
    records: dict[str, Lines] = {}
    for number, line in enumerate(read_lines(path), start=1):
        if '#' in line:
            line = COMMENT.sub('', line)
        head = line.split(None, 1)
        if not head:
            continue
        lines = records.get(head[0])
        if lines is None:
            lines = records[head[0]] = Lines([], [])
        lines.numbers.append(number)
        lines.texts.append(line)
    return records


def as_blocks(
    path: Path, records: Mapping[str, Lines], grammar: Mapping[str, str]
) -> dict[str, Block]:
    """The fields of all records; `grammar` maps a keyword to its line in words.

    Fields in brackets at the end are an information matrix, which a line may lack as a whole.
    Raises FormatError for an unknown keyword or a wrong number of fields.
    """
    unknown = [tag for tag in records if tag not in grammar]
    if unknown:
        tag = min(unknown, key=lambda t: records[t].numbers[0])
        raise FormatError(
            path, records[tag].numbers[0],
            f'expected one of {", ".join(sorted(grammar))}; got {tag[:40]!r}')
    return {tag: _block(path, grammar[tag], lines) for tag, lines in records.items()}


def _block(path: Path, usage: str, lines: Lines) -> Block:
    required, _, information = usage.rstrip(']').partition('[')
    fields = (*required.split(), *information.split())
    width, least = len(fields), len(required.split())
    tokens = ' '.join(lines.texts).split()
    short: list[int] = []
    if len(tokens) != width * len(lines.texts) or any(t != fields[0] for t in tokens[::width]):
        identity = ['1' if name[1] == name[2] else '0' for name in fields[least:]]
        tokens = []
        for number, text in zip(lines.numbers, lines.texts, strict=True):
            words = text.split()
            if len(words) == least < width:
                short.append(number)
                words += identity
            if len(words) != width:
                raise FormatError(
                    path, number,
                    f'{fields[0]}: expected {width} fields ({usage}), got {len(words)}')
            tokens += words
    return Block(path, fields, lines.numbers, tokens, tuple(short))


def read_lines(path: Path) -> list[str]:
    """The lines of a text file without their ends; FormatError when it cannot be read.

    Byte order marks are dropped. Bytes that are no UTF-8 (comments of old editors) are Latin-1.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise FormatError(path, None, f'cannot be read: {error.strerror or error}') from None
    wide = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        text = data.decode('utf-16' if wide else 'utf-8-sig')
    except UnicodeDecodeError:
        text = data.decode('latin-1')
    lines = text.replace('\r\n', '\n').replace('\r', '\n').split('\n')
    if '\0' in text:
        row = next(k for k, line in enumerate(lines) if '\0' in line)
        raise FormatError(path, row + 1, 'is not a text file: a byte of value 0')
    return lines if lines[-1] else lines[:-1]
