"""What the node uses of the package of this name, over transforms3d."""

import numpy as np
import transforms3d


def quaternion_from_matrix(matrix):
    """Quaternion x, y, z, w of the rotation in a 4x4 matrix."""
    w, x, y, z = transforms3d.quaternions.mat2quat(np.asarray(matrix)[:3, :3])
    return np.array([x, y, z, w], float)
