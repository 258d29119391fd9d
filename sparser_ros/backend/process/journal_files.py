"""The files of a journal in their folder: `sparser-<session>-<number>.journal` and `.graph`."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
from collections import defaultdict
from pathlib import Path
from typing import BinaryIO

from ...config import SparserError
from . import journal_records as records

_NAME = re.compile(r'sparser-(\d{6})-(\d{6})\.(journal|graph|map)')
_LOCK = 'sparser.lock'


class Files:
    """A folder; only files that bear our name and begin with our marker are ever deleted."""

    def __init__(self, directory: Path, max_mb: float) -> None:
        self.directory = directory.expanduser().absolute()
        self._max_mb = max_mb
        self._numbers: dict[int, int] = {}
        self._checkpoints: list[int] = []
        """Numbers of the files of the present session that begin with a state."""
        self._bases: list[int] = []
        """Numbers of those of them whose `.graph` file holds all increments."""
        self._lock: BinaryIO | None = None

    def open(self) -> None:
        """Make the folder and claim it; SparserError where another node has, OSError otherwise.

        A folder on a disk that has become read-only can be claimed, and read.
        """
        self.directory.mkdir(parents=True, exist_ok=True)
        lock = os.fdopen(self._lock_file(), 'rb', buffering=0)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            raise SparserError(
                f'another node writes its journal to {self.directory}: give each its own '
                'node.journal.directory') from None
        self._lock = lock

    def _lock_file(self) -> int:
        path = self.directory / _LOCK
        try:
            return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            if error.errno not in (errno.EROFS, errno.EACCES, errno.EPERM) or not path.exists():
                raise
            return os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def close(self) -> None:
        """Let another node have the folder."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def sessions(self) -> dict[int, dict[str, list[Path]]]:
        """Paths of every session by kind (`journal`, `graph`, `map`), in order of their numbers."""
        found: dict[int, dict[str, list[Path]]] = defaultdict(lambda: defaultdict(list))
        if self.directory.is_dir():
            for path in sorted(self.directory.iterdir()):
                match = _NAME.fullmatch(path.name)
                if match and path.is_file() and not path.is_symlink():
                    found[int(match[1])][match[3]].append(path)
        return dict(found)

    def new_session(self, after: int = -1) -> int:
        """A number that no file has, whoever wrote it."""
        taken = [after]
        if self.directory.is_dir():
            taken += [int(match[1]) for path in self.directory.iterdir()
                      if (match := _NAME.fullmatch(path.name))]
        return max(taken) + 1

    def create(self, session: int) -> tuple[Path, BinaryIO]:
        """A new, empty file of a session."""
        number = self._next(session)
        path = self.directory / f'sparser-{session:06d}-{number:06d}.journal'
        file = os.fdopen(
            os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644), 'wb',
            buffering=0)
        self._numbers[session] = number
        self._sync_folder()
        return path, file  # type: ignore[return-value]

    def write_graph(self, session: int, data: bytes) -> None:
        """The increments until the file that comes next."""
        number = self._next(session)
        self._write_whole(self.directory / f'sparser-{session:06d}-{number:06d}.graph', data)

    def write_map(self, session: int, data: bytes) -> None:
        """The newest verdict of a session."""
        record = records.pack(records.Record(records.STATE, 0, 0, 0, 0, 0, data))
        self._write_whole(self.directory / f'sparser-{session:06d}-000000.map', record)

    def tidy(self, session: int, checkpoint: bool, anew: bool = False) -> None:
        """Delete messages that two states follow, then whole old sessions beyond the limit.

        `anew`: the newest `.graph` file holds all increments; older ones go as messages do.
        """
        if checkpoint:
            self._checkpoints.append(self._numbers[session])
            if anew:
                self._bases.append(self._numbers[session])
        else:
            self._checkpoints.clear()
            self._bases.clear()
        sessions = self.sessions()
        if len(self._checkpoints) > 1:
            least = self._checkpoints[-2]
            base = max((one for one in self._bases if one <= least), default=-1)
            for kind, first in (('journal', least), ('graph', base)):
                for path in sessions.get(session, {}).get(kind, []):
                    if _number(path) < first:
                        _delete(path)
        paths = {s: [p for kind in parts.values() for p in kind] for s, parts in sessions.items()}
        sizes = {s: sum(p.stat().st_size for p in of if p.exists()) for s, of in paths.items()}
        for old in sorted(sizes):
            if old == session or sum(sizes.values()) <= self._max_mb * 1e6:
                break
            for path in paths[old]:
                _delete(path)
            sizes.pop(old)

    def _next(self, session: int) -> int:
        number = self._numbers.get(session, -1)
        for path in self.directory.glob(f'sparser-{session:06d}-*'):
            match = _NAME.fullmatch(path.name)
            if match and match[3] == 'journal':
                number = max(number, int(match[2]))
        return number + 1

    def withdraw(self, path: Path) -> None:
        """Delete a file that was created a moment ago and in which nothing whole was written.

        On a full disk it is empty; the next try is 2 s away, and would leave another one.
        """
        with contextlib.suppress(OSError):
            if path.stat().st_size == 0:
                path.unlink()
            else:
                _delete(path)

    def _write_whole(self, path: Path, data: bytes) -> None:
        if path.exists() and not (path.is_file() and _ours(path)):
            raise SparserError(f'{path} is in the way')
        temporary = path.with_name(f'{path.name}.{os.getpid()}.new')
        with open(temporary, 'xb') as file:
            try:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
                os.replace(temporary, path)
            except OSError:
                temporary.unlink(missing_ok=True)
                raise
        self._sync_folder()

    def _sync_folder(self) -> None:
        folder = os.open(self.directory, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _number(path: Path) -> int:
    match = _NAME.fullmatch(path.name)
    assert match
    return int(match[2])


def _ours(path: Path) -> bool:
    with open(path, 'rb') as file:
        head = file.read(len(records.MARKER))
    return head == records.MARKER


def _delete(path: Path) -> None:
    if path.exists() and _ours(path):
        path.unlink()
