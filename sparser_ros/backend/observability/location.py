"""How far the measurements determine a robot in `map`: four states, and what each allows."""

from __future__ import annotations

from enum import Enum, unique


@unique
class Location(Enum):
    """How far the measurements determine a robot in `map`."""

    LOCATED = 'located'
    """Position and heading: path, pose and TF are published."""
    AMBIGUOUS = 'ambiguous'
    """Two or more placements fit about as well; `missing` names them, no pose and no TF."""
    POSITION_ONLY = 'position_only'
    """Heading undetermined: a position is published, no TF."""
    UNLOCATED = 'unlocated'
    """Connected, perhaps, but not determined; nothing is published in map."""

    @property
    def placed(self) -> bool:
        """Whether the robot has one position in map."""
        return self in (Location.LOCATED, Location.POSITION_ONLY)
