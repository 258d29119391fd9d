"""Point the ROS wheels' CMake files at this machine's Python and NumPy.

The wheels' exported targets carry two include directories of the machine that built them. Without
this, the first package that generates messages fails to configure.
"""

import re
import sys
import sysconfig
from pathlib import Path

import numpy

BAKED = {
    r'/opt/python/cp3\d+-cp3\d+/lib/python3\.\d+/site-packages/numpy/_core/include':
        numpy.get_include(),
    r'/opt/python/cp3\d+-cp3\d+/include/python3\.\d+':
        sysconfig.get_path('include'),
}


def main() -> None:
    """Rewrite the baked paths below `<prefix>/share`; running it again changes nothing."""
    for path in Path(sys.prefix, 'share').rglob('*.cmake'):
        text = fixed = path.read_text()
        for baked, ours in BAKED.items():
            fixed = re.sub(baked, lambda _, ours=ours: ours, fixed)
        if fixed != text:
            path.write_text(fixed)


if __name__ == '__main__':
    main()
