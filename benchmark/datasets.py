"""The public sets of the paper: their files, best known costs, and figures of other solvers.

Costs carry no factor 1/2. Seconds of other solvers were measured once, on a quiet two-core machine
with one thread; a run here quotes them and does not repeat them.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from sparser_ros.config import ConfigError


@dataclass(frozen=True)
class Dataset:
    """One graph and what is known of it."""

    name: str
    file: str
    relaxed_cost: float
    """Best known at rank 5."""
    final_cost: float
    """Best known at rank d."""
    peer_relaxed_s: float
    """SE-Sync (pose graphs) or CORA (ranges): random rank-5 start to 1 % of the relaxed cost."""
    peer_final_s: float
    """Fastest finished rank-d trajectory within 0.1 % of the best cost: GTSAM, SE-Sync or CORA."""
    peer_final: str
    """Which solver that was."""

    @property
    def range_aided(self) -> bool:
        return self.file.endswith('.pyfg')


PAPER = (
    Dataset('MIT', 'g2o/MIT.g2o', 61.154, 61.154, 0.080, 0.032, 'SE-Sync'),
    Dataset('intel', 'g2o/intel.g2o', 52.348, 52.348, 0.151, 0.047, 'GTSAM'),
    Dataset('manhattan', 'g2o/manhattan.g2o', 6431.39, 6431.39, 0.333, 0.091, 'GTSAM'),
    Dataset('parking-garage', 'g2o/parking-garage.g2o', 1.262524, 1.262524, 15.9, 0.153, 'GTSAM'),
    Dataset('sphere2500', 'g2o/sphere2500.g2o', 1687.006, 1687.006, 0.593, 0.489, 'GTSAM'),
    Dataset('torus3D', 'g2o/torus3D.g2o', 24227.05, 24227.05, 0.897, 1.309, 'SE-Sync'),
    Dataset('city10000', 'g2o/city10000.g2o', 638.62, 638.62, 3.02, 0.528, 'GTSAM'),
    Dataset('smallGrid3D', 'g2o/smallGrid3D.g2o', 1025.40, 1025.40, 0.013, 0.023, 'SE-Sync'),
    Dataset('single_drone', 'pyfg/single_drone.pyfg', 14.638, 14.960, 0.448, 1.1, 'CORA'),
    Dataset('plaza2', 'pyfg/plaza2.pyfg', 1389.31, 1408.16, 1.46, 2.7, 'CORA'),
    Dataset('tiers', 'pyfg/tiers.pyfg', 3837.88, 4100.2, 10.5, 21.6, 'CORA'),
    Dataset('outfinite', 'pyfg/outfinite.pyfg', 686.264, 757.5024, 11.0, 31.2, 'CORA'),
)


def chosen(names: list[str] | None) -> list[Dataset]:
    """The sets of these names, all sets for None; ConfigError names an unknown one."""
    known = {dataset.name: dataset for dataset in PAPER}
    unknown = [name for name in names or () if name not in known]
    if unknown:
        raise ConfigError(f'unknown data set {unknown[0]!r}; known: {", ".join(known)}')
    return [known[name] for name in names] if names else list(PAPER)


def directory(given: Path | None) -> Path:
    """Folder of the sets (with g2o/ and pyfg/): the given one, or SPARSER_DATA."""
    path = given or (Path(os.environ['SPARSER_DATA']) if 'SPARSER_DATA' in os.environ else None)
    if path is None or not path.is_dir():
        raise ConfigError(
            f'no data sets in {path}: give --data DIR, or set SPARSER_DATA, to a folder with '
            'g2o/*.g2o and pyfg/*.pyfg')
    return path
