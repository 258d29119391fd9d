"""Append-only file of increments; whatever was written before a crash can be read again.

Frames: magic `SPRJ`, length (u64), CRC-32 (u32), then the bytes of one increment (`codec`). A
torn tail (cut or half-written last frame) is ignored on reading and cut off on appending.
"""

from __future__ import annotations

import logging
import os
import struct
import zlib
from collections import deque
from pathlib import Path

from ...config import FormatError, SparserError
from ...graph import Increment
from .codec import decode, decode_increment, encode_increment

_log = logging.getLogger(__name__)

MAGIC = b'SPRJ'
_FRAME = struct.Struct('<4sQI')


class Journal:
    """An open journal, positioned at its end."""

    def __init__(self, path: str | Path) -> None:
        """Open or create; a torn tail is cut off. Raises FormatError for another kind of file."""
        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        end = _scan(self.path)[1] if self.path.exists() else 0
        self._file = open(self.path, 'ab')  # noqa: SIM115
        if self._file.tell() > end:
            self._file.truncate(end)
            self._file.seek(end)

    @classmethod
    def fresh(cls, path: str | Path) -> Journal:
        """A new journal; an existing one is kept beside it as `<name>.previous`."""
        path = Path(path)
        if path.exists() and path.stat().st_size:
            path.replace(path.with_name(path.name + '.previous'))
        return cls(path)

    def append(self, increment: Increment) -> None:
        """Write one increment and hand it to the operating system."""
        data = encode_increment(increment)
        self._file.write(_FRAME.pack(MAGIC, len(data), zlib.crc32(data)) + data)
        self._file.flush()

    def reset(self) -> None:
        """Forget everything written so far."""
        self._file.truncate(0)
        self._file.seek(0)

    def close(self) -> None:
        """Write to disk and close."""
        if not self._file.closed:
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class WaitingJournal:
    """Increments that wait to be written, and the journal; without a path it keeps nothing.

    `append` costs the caller no time; `write` belongs to another thread.
    """

    def __init__(self, path: str) -> None:
        self._journal = Journal.fresh(path) if path else None
        self._waiting: deque[Increment] = deque()

    def append(self, increment: Increment) -> None:
        """Keep an increment for the next `write`."""
        if self._journal is not None:
            self._waiting.append(increment)

    def write(self) -> None:
        """Write what waits."""
        while self._waiting and self._journal is not None:
            try:
                self._journal.append(self._waiting.popleft())
            except (OSError, ValueError) as error:
                # A full disk must not stop the robot; the session itself lives in memory.
                _log.error('journal %s: %s; it ends here', self._journal.path, error)
                self._journal = None

    def reset(self) -> None:
        """Forget everything."""
        self._waiting.clear()
        if self._journal is not None:
            self._journal.reset()

    def close(self) -> None:
        """Write what waits, and close."""
        self.write()
        if self._journal is not None:
            self._journal.close()


def load(path: str | Path) -> list[Increment]:
    """All whole increments of a journal, in order."""
    return _scan(Path(path))[0]


def _scan(path: Path) -> tuple[list[Increment], int]:
    """Whole increments and the length of the sound beginning of the file."""
    data = path.read_bytes()
    if data and not data.startswith(MAGIC[:len(data)]):
        raise FormatError(path, None, 'not a journal: expected it to begin with SPRJ')
    increments: list[Increment] = []
    offset = 0
    while offset + _FRAME.size <= len(data):
        magic, length, check = _FRAME.unpack_from(data, offset)
        body = data[offset + _FRAME.size:offset + _FRAME.size + length]
        if magic != MAGIC or len(body) < length or zlib.crc32(body) != check:
            break
        try:
            increments.append(decode_increment(decode(body)))
        except SparserError as error:
            raise FormatError(path, None, f'frame at byte {offset}: {error}') from error
        offset += _FRAME.size + length
    return increments, offset
