"""The search for a better treatment: candidates are solved from the present map and compared.

A candidate is a treatment. It is solved warm, and adopted as a whole where its map is better than
the present one by more than chance explains; until then the present treatment is in force. Kinds
of faults say what to try (fault_trials.py) and what else must hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import chdtri

from ...array_types import Index
from ...graph import Estimate, Graph
from ...graph.ends import stamps_of
from ..integrity.exchange import Pair
from ..integrity.faults import Fault
from ..integrity.noise import RANGES, Noise
from .contest import Contest
from .graph_store import GraphStore
from .judgement import Judgement, examined, judged
from .solution import Location
from .treatment import Treatment

if TYPE_CHECKING:
    from ...config.backend_config import IntegrityConfig
    from ...config.sparser import SparserConfig
    from ..integrity.examine import Examination

Solve = Callable[[Treatment, Contest, Estimate], 'Contest | None']
"""A contest for the graph under a treatment, from the map of an earlier one."""
_FIRST = 20
"""New measurements from which a second try may end otherwise than the first."""
_GROWTH = 1.25
"""Of that number from try to try."""
_SHARE = 0.02
"""And at least this share of all: a try takes as long as the graph is large."""


class Retry:
    """Tries while something is wrong, each after more new measurements than the last."""

    def __init__(self) -> None:
        self._wait, self._next = float(_FIRST), 0

    def due(self, wrong: bool, measurements: int) -> bool:
        """Whether to try now, with so many measurements; the next one is put off."""
        if not wrong:
            self.succeeded()
            return False
        if measurements < self._next:
            return False
        self._next = measurements + round(max(self._wait, _SHARE * measurements))
        self._wait *= _GROWTH
        return True

    def thinned(self, share: float) -> None:
        """A graph of a share of the measurements goes on."""
        self._next = int(share * self._next)

    def succeeded(self) -> None:
        """Nothing is wrong any more: the next try may come at once."""
        self._wait, self._next = float(_FIRST), 0


@dataclass
class Attempts:
    """What an auditor remembers of tries, from audit to audit; what it believes is no part of it.
    """

    retries: dict[str, Retry] = field(default_factory=dict)
    well_ns: dict[str, int] = field(default_factory=dict)
    """Newest stamp when a radio last gave no trouble."""
    refused: dict[tuple[str, str, int], int] = field(default_factory=dict)
    """By explanation, source and begin of its faulty ranges: their number when the explanation was
    tried in vain."""
    exchanges: dict[Pair, int] = field(default_factory=dict)
    """Robots or beacons whose radios were exchanged on trial: the number of all measurements then.
    """
    exclusions: dict[Pair, int] = field(default_factory=dict)
    """How many tries in a row have excluded that these bear each other's radio."""
    fit_exchanged: dict[Pair, dict[str, float]] = field(default_factory=dict)
    """Those of which the ranges fit exchanged at least as well, not beyond chance; by how many
    metres that moves robots."""
    failed_instead: dict[tuple[Fault, str], dict[str, float]] = field(default_factory=dict)
    """Failures of odometry, and robots whose odometry may have failed instead; by how many metres
    that moves robots; {} = that is excluded."""
    mirrored: bool = False
    """Whether odometry whose y points right fits known beacons as well as faults do."""
    noises: list[tuple[int, Noise]] = field(default_factory=list)
    """Noise that audits have found, by the newest stamp of their data: of the last window."""

    @property
    def others(self) -> dict[str, dict[str, float]]:
        """Other maps that fit as well, in words; by how many metres each moves robots."""
        others = {f'the map with the radios of {pair[0]} and {pair[1]} exchanged': metres
                  for pair, metres in self.fit_exchanged.items()}
        for (fault, partner), metres in self.failed_instead.items():
            words = (f'the map in which the odometry of {partner} fails instead of that of '
                     f'{fault.subject}')
            others[words] = others.get(words, {}) | metres
        return others

    def lasting_noise(
        self, before: Noise, measured: Noise, stamp_ns: int, window_s: float
    ) -> Noise:
        """What is found, as far as it is below what counted `before` or was found for a window.

        Ranges never count for more than they claim: the kernel that weighs single ones down makes
        the noise of what it leaves smaller, and would be narrowed by that.
        """
        begin_ns = stamp_ns - round(window_s * 1e9)
        older = [stamp for stamp, _ in self.noises if stamp <= begin_ns]
        self.noises = [
            (stamp, noise) for stamp, noise in self.noises if stamp >= max(older, default=0)]
        self.noises.append((stamp_ns, measured))
        every = [noise.log_factor for _, noise in self.noises] + ([] if older else [{}])
        return Noise({
            name: max(0.0 if name[0] == RANGES else -np.inf, min(log, max(
                before.log_factor.get(name, 0.0), min(logs.get(name, 0.0) for logs in every))))
            for name, log in measured.log_factor.items()})

    def thinned(self, share: float) -> None:
        """A graph of a share of the measurements goes on: numbers are those that it had then."""
        for retry in self.retries.values():
            retry.thinned(share)
        self.refused = {key: int(share * rows) for key, rows in self.refused.items()}
        self.exchanges = {pair: int(share * rows) for pair, rows in self.exchanges.items()}

    def forget(self, subjects: set[str]) -> None:
        """Faulty ranges of sources are others now."""
        self.refused = {key: rows for key, rows in self.refused.items() if key[1] not in subjects}


def excludes_chance(gain: float, count: int, flip_cost: float) -> bool:
    """Whether a map costs less by more than chance explains, with `count` degrees of freedom more.

    Honest ranges that are left out, whitened, cost chi-square given the rest, and so does the best
    size of a fault that is none. The false-alarm probability is that of a wrong alternative
    placement, exp(-flip_cost / 2).
    """
    return bool(count and gain > chdtri(count, np.exp(-flip_cost / 2)))


@dataclass(frozen=True)
class Candidate:
    """A map under another treatment, as good as it gets."""

    contest: Contest
    count: int = 0
    """Degrees of freedom that it has more than the present one, which chance may fill; 0 = a fault
    that is known is measured again, or its kind has excluded chance by other means."""
    against: float = np.inf
    """Least robust cost of other explanations of the same."""
    judgement: Judgement | None = None
    """Of its map, where that is known already."""


Trials = Callable[['FaultSearch'], Iterator[Candidate]]
"""What a kind of faults proposes: between two candidates it sees whether the last was adopted."""


class FaultSearch:
    """The best map of an audit so far, the treatment that it is of, and tries of others."""

    def __init__(
        self, store: GraphStore, contest: Contest, solve: Solve, attempts: Attempts,
        config: SparserConfig,
    ) -> None:
        self.store, self.config, self.attempts = store, config, attempts
        self._solve = solve
        self.contest = contest
        self.treatment = contest.data.treatment
        self._judgement: Judgement | None = self.judged(contest)
        self._unclear: tuple[tuple[str, str], ...] = ()

    @property
    def whole(self) -> Graph:
        """The sum of all increments."""
        return self.store.whole

    @property
    def unbiased(self) -> Graph:
        """The sum of all increments with what radios err by taken off its ranges."""
        return self.contest.data.unbiased

    @property
    def estimate(self) -> Estimate:
        """The best map, of all poses and landmarks."""
        return self.contest.best.whole

    @property
    def integrity(self) -> IntegrityConfig:
        """Options of the monitors."""
        return self.config.backend.integrity

    @property
    def flip_cost(self) -> float:
        """Chi-square by which a wrong map may be better by chance."""
        return self.config.backend.observability.flip_cost

    @property
    def newest_ns(self) -> int:
        """Stamp of the newest range, 0 without any."""
        return int(np.max(stamps_of(self.whole, self.whole.ranges), initial=0))

    def due(self, name: str, wrong: bool = True) -> bool:
        """Whether a try of that name may be made now."""
        return self.attempts.retries.setdefault(name, Retry()).due(
            wrong, self.store.n_measurements)

    def solved(
        self, treatment: Treatment, beside: Contest | None = None, start: Estimate | None = None
    ) -> Contest | None:
        """A warm solve under a treatment, from another contest's map or an estimate of all."""
        contest = self.contest if beside is None else beside
        return self._solve(
            treatment, contest, contest.best.whole if start is None else start)

    def solved_rows(self, contest: Contest, fault: Fault) -> Index:
        """Ranges of a fault among those of a contest's subgraph."""
        own = contest.data.original('ranges', contest.frame.subgraph.rows['ranges'])
        return np.flatnonzero(np.isin(own, fault.rows(self.whole)))

    def judged(self, contest: Contest) -> Judgement:
        """What the best map of a contest determines, and what speaks against it."""
        return judged(contest, self.config)

    @property
    def examination(self) -> Examination:
        """What speaks against the best map: all that most trials ask for, in a third of the time.
        """
        return examined(self.contest, self.config)

    @property
    def judgement(self) -> Judgement:
        """Of the best map, after it has been compared with other placements."""
        if self._judgement is None:
            self._judgement = self.judged(self.contest)
        return self._judgement.with_unclear(self._unclear)

    @property
    def unclear(self) -> tuple[tuple[str, str], ...]:
        """(robot, why) where causes could not be told apart; '' = the map as a whole."""
        return (*self.examination.unclear, *self._unclear)

    def withdraw(self, unclear: tuple[tuple[str, str], ...]) -> None:
        """Causes could not be told apart in the present map."""
        self._unclear += unclear

    def adopt(self, contest: Contest, judgement: Judgement | None = None) -> None:
        """Go on with a map and its treatment."""
        self.contest, self.treatment = contest, contest.data.treatment
        self._judgement, self._unclear = judgement, ()

    def go_on(self, treatment: Treatment) -> Iterator[Candidate]:
        """The map under a treatment that needs no proof; none where the solve fails.

        It stays where the graph is the same.
        """
        data = self.store.treated(treatment)
        if data.same(self.contest.data):
            self.contest, self.treatment = self.contest.under(data), treatment
        elif (contest := self.solved(treatment)) is not None:
            yield Candidate(contest)

    def better(self, candidate: Candidate) -> bool:
        """Whether a candidate excludes the present map, and other causes, beyond chance."""
        rival = min(self.contest.best.value, candidate.against)
        return not candidate.count or excludes_chance(
            rival - candidate.contest.best.value, candidate.count, self.flip_cost)

    def run(self, *trials: Trials) -> None:
        """Try what kinds of faults propose, one after the other, and adopt what is better."""
        for proposed in trials:
            for candidate in proposed(self):
                if self.better(candidate):
                    self.adopt(candidate.contest, candidate.judgement)

    def note(self, treatment: Treatment) -> None:
        """Go on under a treatment of which the graph is the same."""
        self.treatment = treatment
        self.contest = self.contest.under(replace(self.contest.data, treatment=treatment))

    def places_as_much(self, contest: Contest, judgement: Judgement) -> bool:
        """Whether another map locates whatever the present one does, in the same kind of frame."""
        return contest.frame.anchored == self.contest.frame.anchored and (
            located_segments(judgement) >= located_segments(self.judgement))


def located_segments(judgement: Judgement) -> set[int]:
    """First rows of segments that are located."""
    return {segment.first for segment in judgement.segments
            if segment.location is Location.LOCATED}
