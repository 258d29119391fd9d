"""What a solver process imports; the fork server imports it once for all of them.

No kernel is compiled or loaded here, other than the one below: compiling takes minutes after an
installation, and belongs to a process that shows signs of life meanwhile and can be killed.
"""

from __future__ import annotations

import numba
import scipy.optimize  # noqa: F401  (thresholds of robust kernels import it when they are used)

from ...solver import warm_up  # noqa: F401
from ..observability import observability  # noqa: F401
from . import solver_process  # noqa: F401

# Kernels refer to parts of the tables of types that numba reads for the first function it compiles.
numba.njit(lambda: 0)()
