"""`pip install .` of the ROS-free part: pyproject.toml declares everything but the extras.

Which scikit-sparse can be compiled depends on the SuiteSparse of the machine.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

NEW, OLD = 'scikit-sparse>=0.5,<0.6', 'scikit-sparse>=0.4.16,<0.5'


def scikit_sparse(folders: list[str] | None = None) -> str:
    """The requirement: 0.5 needs SuiteSparse 7.4, 0.4.16 works with what is older.

    `folders` are where headers may lie, the first that has them decides.
    """
    for folder in folders or _include_folders():
        header = Path(folder, 'SuiteSparse_config.h')
        if header.is_file():
            text = header.read_text(errors='replace')
            found = [re.search(rf'#define\s+SUITESPARSE_{part}_VERSION\s+(\d+)', text)
                     for part in ('MAIN', 'SUB')]
            version = tuple(int(one.group(1)) for one in found if one)
            return NEW if version >= (7, 4) else OLD
    return 'scikit-sparse>=0.4.16'


def _include_folders() -> list[str]:
    prefixes = [os.environ.get('CONDA_PREFIX', ''), '/usr/local', '/usr', '/opt/homebrew']
    named = os.environ.get('SUITESPARSE_INCLUDE_DIR', '')
    return [named] * bool(named) + [
        f'{prefix}/include{end}' for prefix in prefixes if prefix for end in ('/suitesparse', '')]


EXTRAS = {
    'cholmod': [scikit_sparse()],
    'plot': ['matplotlib>=3.7'],
    'dask': ['distributed>=2024.1'],
    'docs': ['mkdocs-material>=9.6,<10'],
    'gpu': ['cupy-cuda12x>=13'],
    'bench': ['gtsam>=4.2', 'matplotlib>=3.7'],
    'dev': ['pytest>=7', 'evo>=1.30', 'pytest-timeout', 'pytest-xdist>=3.7', 'hypothesis>=6',
            'ruff', 'mypy', 'types-PyYAML'],
}

if __name__ == '__main__':
    from setuptools import setup

    setup(extras_require=EXTRAS)
