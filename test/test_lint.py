"""Style and types, checked by the tools that pyproject.toml configures."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize('tool, arguments', [('ruff', ['check', '.']), ('mypy', [])])
def test_clean(tool: str, arguments: list[str]):
    if importlib.util.find_spec(tool) is None:
        pytest.skip(f'{tool} is not installed')
    done = subprocess.run(
        [sys.executable, '-m', tool, *arguments],
        cwd=ROOT, capture_output=True, text=True, timeout=280,
    )
    assert done.returncode == 0, done.stdout + done.stderr
