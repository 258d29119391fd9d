"""Style and types, checked by the tools that pyproject.toml configures."""

import importlib.util
from pathlib import Path

import pytest
from waiting import python

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize('tool, arguments', [('ruff', ['check', '.']), ('mypy', [])])
def test_clean(tool: str, arguments: list[str]):
    if importlib.util.find_spec(tool) is None:
        pytest.skip(f'{tool} is not installed')
    done = python('-m', tool, *arguments, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
