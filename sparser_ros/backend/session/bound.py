"""What is proved of the map of an audit: no map of the same data costs less than this."""

from __future__ import annotations

from dataclasses import dataclass

NOTHING = 'no bound on better maps is known yet'


@dataclass(frozen=True)
class Bound:
    """Costs have no factor 1/2; all are those of the quadratic problem at the robust weights
    that the map had at its audit, so a map with other weights is not in it."""

    sequence: int
    """Newest increment of the map."""
    newest_stamp_ns: int
    """Of the data of the map."""
    cost: float
    relaxed: float
    """Of the lowest point of higher rank found: no bound from this relaxation can exceed it."""
    lower: float
    certified: bool
    """Whether the map is proved to be the best one."""
    seconds: float
    """Work that it took."""

    @property
    def suboptimality(self) -> float:
        """What the best possible map may gain, at most."""
        return max(self.cost - self.lower, 0.0)

    @property
    def words(self) -> str:
        """For an operator."""
        if self.certified:
            return (f'the map audited last is the best possible one at its robust weights (cost '
                    f'{self.cost:.6g})')
        share = f' ({100 * self.suboptimality / self.cost:.2g} %)' if self.cost > 0 else ''
        return (f'no map costs less than {self.lower:.5g} at the robust weights of the one audited '
                f'last, which costs {self.cost:.5g}: the best possible is at most '
                f'{self.suboptimality:.3g}{share} better')
