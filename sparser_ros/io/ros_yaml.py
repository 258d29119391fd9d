"""Parameter files in the form that ROS 2 reads."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from . import atomic


def write(
    path: Path | str, parameters: Mapping[str, Any], comments: Sequence[str] = ()
) -> None:
    """Write parameters for any node name and namespace, atomically; comments go to the top."""
    document = {'/**': {'ros__parameters': dict(parameters)}}
    text = yaml.safe_dump(document, sort_keys=False, default_flow_style=None, width=100)
    head = ''.join(f'{textwrap.fill(one, 96, initial_indent="# ", subsequent_indent="#   ")}\n'
                   for one in comments)
    atomic.write_text(path, head + text)
