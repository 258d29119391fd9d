"""Files and folders that appear whole or not at all: written beside, then renamed."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..config import FormatError


def write_text(path: Path | str, text: str) -> None:
    """Write a text file atomically, making its folder; FormatError when that is impossible."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding='utf-8')


@contextmanager
def replacing(path: Path | str) -> Iterator[Path]:
    """Give a path beside `path` to write to; on success it takes the place of `path`.

    The temporary path does not exist yet and has the suffix of `path`, so a writer may make a
    file or a folder of it. Raises FormatError when the place cannot be written.
    """
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=f'.{path.name}.', dir=path.parent))
    except OSError as error:
        raise FormatError(path, None, f'cannot be written: {error.strerror or error}') from None
    temporary = scratch / path.name
    try:
        yield temporary
        if path.is_dir() and temporary.is_dir():
            shutil.rmtree(path)
        os.replace(temporary, path)
    except OSError as error:
        raise FormatError(path, None, f'cannot be written: {error.strerror or error}') from None
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
