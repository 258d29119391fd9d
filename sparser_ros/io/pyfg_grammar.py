"""Keywords and fields of `.pyfg` records, in two and three dimensions."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


def _upper(size: int) -> str:
    return ' '.join(f'c{r}{c}' for r in range(1, size + 1) for c in range(r, size + 1))


@dataclass(frozen=True)
class Grammar:
    """Keywords of one dimension."""

    dimension: int
    pose: str
    point: str
    relative: str
    sighting: str
    range: str = 'EDGE_RANGE'
    offset_range: str = 'EDGE_RANGE:OFFSET'

    @property
    def pose_prior(self) -> str:
        return f'{self.pose}:PRIOR'

    @property
    def point_prior(self) -> str:
        return f'{self.point}:PRIOR'

    @property
    def fix(self) -> str:
        return f'{self.point}:FIX'

    @property
    def position(self) -> str:
        return f'{self.pose}:POSITION'

    @property
    def odometry(self) -> str:
        return f'{self.relative}:ODOMETRY'

    @property
    def loop(self) -> str:
        return f'{self.relative}:LOOP'

    @property
    def pose_covariance(self) -> int:
        """Entries of the upper triangle of a pose covariance."""
        return 6 if self.dimension == 2 else 21

    @property
    def lines(self) -> dict[str, str]:
        """Every keyword with its line in words."""
        xyz = 'x y' if self.dimension == 2 else 'x y z'
        turn = 'theta' if self.dimension == 2 else 'qx qy qz qw'
        step = ' '.join(f'd{axis}' for axis in xyz.split())
        spin = 'dtheta' if self.dimension == 2 else turn
        pose_cov, point_cov = _upper(3 * (self.dimension - 1)), _upper(self.dimension)
        lever = ' '.join(f'lever_{axis}' for axis in xyz.split())
        levers = ' '.join(f'lever_{end}_{axis}' for end in 'AB' for axis in xyz.split())
        fields = {
            self.pose: f'ts NAME {xyz} {turn}',
            self.point: f'NAME {xyz}',
            self.pose_prior: f'ts NAME {xyz} {turn} {pose_cov}',
            self.point_prior: f'ts NAME {xyz} {point_cov}',
            self.fix: f'NAME {xyz}',
            self.position: f'ts NAME {xyz} {point_cov} {lever}',
            self.sighting: f'ts POSE LMK {step} {point_cov}',
            self.range: 'ts A B range variance',
            self.offset_range: f'ts A B range variance {levers}',
        }
        edge = f'ts FROM TO {step} {spin} {pose_cov}'
        fields |= dict.fromkeys((self.relative, self.odometry, self.loop), edge)
        return {tag: f'{tag} {words}' for tag, words in fields.items()}

    @property
    def own(self) -> frozenset[str]:
        """Keywords that occur in this dimension only."""
        return frozenset(self.lines) - {self.range, self.offset_range}


PLANE = Grammar(2, 'VERTEX_SE2', 'VERTEX_XY', 'EDGE_SE2', 'EDGE_SE2_XY')
SPACE = Grammar(3, 'VERTEX_SE3:QUAT', 'VERTEX_XYZ', 'EDGE_SE3:QUAT', 'EDGE_SE3_XYZ')

def grammar_of(dimension: int) -> Grammar:
    """The keywords of a dimension."""
    return PLANE if dimension == 2 else SPACE


def sidecar_path(path: Path | str) -> Path:
    """Where names that are no PyFG names are kept beside a file."""
    path = Path(path)
    return path.with_name(path.name + '.names.json')
