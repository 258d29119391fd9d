"""Whether the kernels of this checkout are compiled."""

import os
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / 'sparser_ros'


def compiled_by_dev_run() -> bool:
    """`./dev/run` has compiled all of them since the package was changed."""
    mark = Path(os.environ.get('NUMBA_CACHE_DIR', '.')) / '.compiled'
    return mark.exists() and mark.stat().st_mtime > max(
        path.stat().st_mtime for path in PACKAGE.rglob('*.py'))
