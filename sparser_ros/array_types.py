"""The three NumPy array types of the package; imported by every room, imports none."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
"""Real numbers."""
Index = NDArray[np.int64]
"""Row numbers, endpoints, stamps in nanoseconds."""
Mask = NDArray[np.bool_]
"""One truth value per row."""
