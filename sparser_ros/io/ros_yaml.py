"""Parameter files in the form that ROS 2 reads."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..config import yaml_file
from . import atomic


def write(
    path: Path | str, parameters: Mapping[str, Any], comments: Sequence[str] = ()
) -> None:
    """Write parameters for any node name and namespace, atomically; comments go to the top."""
    document = {'/**': {'ros__parameters': dict(parameters)}}
    text = yaml_file.text_of(document)
    head = ''.join(f'{textwrap.fill(one, 96, initial_indent="# ", subsequent_indent="#   ")}\n'
                   for one in comments)
    atomic.write_text(path, head + text)
