"""Kernels give the same bits whether they were just compiled or come from numba's cache.

Each kernel is linked with copies of the compiled functions that it calls. Where sums may be
reordered these copies differ in the last bits, and which one runs depends on the process. So such
functions are inlined.
"""

import ast
import importlib
from pathlib import Path

import pytest

import sparser_ros.linalg

KERNELS = [path for path in sorted(Path(sparser_ros.linalg.__file__).parent.glob('*.py'))
           if 'import numpy' in path.read_text() and '.compiled import' in path.read_text()]


def called_by_kernels(path: Path) -> dict[str, object]:
    """Compiled functions that other compiled functions of a module call, by name."""
    module = importlib.import_module(f'sparser_ros.linalg.{path.stem}')
    calls = {
        call.func.id
        for function in ast.walk(ast.parse(path.read_text()))
        if isinstance(function, ast.FunctionDef) and function.decorator_list
        for call in ast.walk(function)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name)}
    return {call: getattr(module, call) for call in calls
            if hasattr(getattr(module, call, None), 'targetoptions')}


def test_calls_between_kernels_are_found():
    found = {path.stem: set(called_by_kernels(path)) for path in KERNELS}
    assert {'_pivot', '_eliminate', '_apply', '_three'} <= found['fronts']
    assert 'eliminate_front' in found['term_kernels']


@pytest.mark.parametrize('path', KERNELS, ids=lambda path: path.stem)
def test_functions_with_fast_sums_are_inlined(path):
    for name, function in called_by_kernels(path).items():
        options = function.targetoptions
        assert not options.get('fastmath') or options.get('forceinline'), name
