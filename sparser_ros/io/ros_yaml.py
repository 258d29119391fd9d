"""Parameter files in the form that ROS 2 reads."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from . import atomic


def write(path: Path | str, parameters: Mapping[str, Any]) -> None:
    """Write parameters for any node name and namespace, atomically."""
    document = {'/**': {'ros__parameters': dict(parameters)}}
    text = yaml.safe_dump(document, sort_keys=False, default_flow_style=None, width=100)
    atomic.write_text(path, text)
