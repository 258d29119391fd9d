"""A trajectory of rank d kept at its optimum while measurements come in.

The terms of all measurements are kept, their gradient is exact for every body that moved, and the
factor of the Hessian's convex part (`linalg/clique_tree`) only serves to find steps: it is formed
again where steps gain less than it predicted. With a robust kernel the objective is sum rho, and
weights follow the residuals. The work of an update is that of the parts of the tree that change.

At rank d, with bearings at their best direction, every residual is the difference of two vectors
c t + R a, each of a body (pose or landmark), or the distance of two such points less the measured
one (linalg/term_kernels.py). A relative rotation is one term for each axis:
kappa |R_j e_a - R_i R~ e_a|^2, summed over a.

An update ends when what is left to gain is within its tolerance. That is the decrement, the
squared norm of the gradient in the inverse Hessian, over 1 - the rate of convergence (the sum of
the geometric series of gains): along directions that the convex part makes far too stiff, such as
the height of a beacon that few ranges determine, steps are short. Since the cost has no factor 1/2,
every coordinate is then within the square root of that, in its own standard deviations, of the
optimum. The decrement is an estimate: the factor may be older than the gradient, and subtrees that
were not entered contribute the gradient of the quadratic model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from ..array_types import Array, Index, Mask
from ..config import RobustConfig
from ..graph import Kind, MeasurementTables, Residual
from ..linalg.clique_tree import CliqueTree, MarginalFactor, room
from ..linalg.process import single_threaded_blas
from ..linalg.term_kernels import Bodies, TermChains, TermColumns, term_kernels
from .robust import KERNELS, floored
from .robust import thresholds as squared_thresholds

MOST_CLIQUES = 20_000
"""Cliques formed or entered from which an update begins no further step: 0.15 s of work at 7 us a
clique. What is left is taken up by the next update."""
RENEWED_CLIQUES = 300
"""Cliques whose changed values enter the covariances at one call, beside new ones: 5 ms."""
ENTERED_GAIN_SHARE = 0.02
"""Gain of entering a subtree, over the tolerance of the update, up to which it is not entered."""
REORDER_GROWTH = 2.0
"""Variables, over those at the last ordering of the whole tree, from where all are ordered anew."""

GROUND = -1
"""Body number of the map frame, which never moves."""


@dataclass(frozen=True)
class Terms:
    """Terms in columns of equal length; ends are bodies, or GROUND."""

    ends: Index
    """(k, 2)"""
    arms: Array
    """(k, 2, d): a, in the frames of the ends."""
    position_factor: Array
    """(k,): c, 1 for points fixed to bodies, 0 for directions."""
    distance: Array
    """(k,): measured distance in metres; -1 where the two ends should coincide, -2 - x where their
    coordinates x should."""
    weight: Array
    """(k,): precision."""
    kind: NDArray[np.int8]
    members: NDArray[np.int8]
    """(k,): at the first term of a measurement the number of its terms, which follow each other;
    else 0."""
    threshold: Array
    """(k,): c^2 of a robust kernel for the measurement, infinite where it is trusted."""

    def __len__(self) -> int:
        return len(self.weight)

    def columns(self, weight: Array) -> TermColumns:
        """What the kernels read, with these weights (k,)."""
        return TermColumns(self.ends, self.arms, self.position_factor, self.distance, weight)

    @classmethod
    def none(cls, dimension: int) -> Terms:
        """No terms."""
        few, many = np.zeros(0), np.zeros(0, dtype=np.int8)
        return cls(
            np.zeros((0, 2), dtype=np.int64), np.zeros((0, 2, dimension)), few, few, few, many,
            many, few)


def terms_of(
    source: MeasurementTables, dimension: int, body: Callable[[Index], Index],
    robust: RobustConfig,
) -> Terms:
    """The terms of all measurements of a graph or increment; `body` numbers its endpoints."""
    c2 = squared_thresholds(source, robust, dimension)
    parts = [Terms.none(dimension)] + [
        _terms(kind.residuals(table), kind.kinds(table), c2[kind.name], dimension, body)
        for kind, table in source.typed() if len(table)]
    return Terms(*(
        np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(Terms)))


def _terms(
    residuals: tuple[Residual, ...], kinds: NDArray[np.int8], threshold: Array, dimension: int,
    body: Callable[[Index], Index],
) -> Terms:
    """The terms of one table: of each measurement its points first, then its axes."""
    ordered = sorted(residuals, key=lambda part: not part.point)
    blocks = [_columns(part, dimension, body) for part in ordered]
    ends, arms, position_factor, distance, weight = (
        np.concatenate(column, axis=1) for column in zip(*blocks, strict=True))
    size = weight.shape[1]
    members = np.zeros(weight.shape, dtype=np.int8)
    members[:, 0] = size
    return Terms(
        ends.reshape(-1, 2), arms.reshape(-1, 2, dimension), position_factor.ravel(),
        distance.ravel(), weight.ravel(), np.repeat(kinds, size), members.ravel(),
        np.repeat(threshold, size))


def _columns(
    part: Residual, d: int, body: Callable[[Index], Index]
) -> tuple[Index, Array, Array, Array, Array]:
    """A term for each row: ends (k, r, 2), arms (k, r, 2, d), and (k, r) the other columns."""
    shape = part.arm_first.shape[:2]
    first = np.full(len(part), GROUND) if part.first is None else body(part.first)
    ends = np.stack([first, body(part.second)], axis=1)
    distance = np.full(shape, -float(d + 1) if part.height else -1.0)
    if part.distance is not None:
        distance[:, 0] = part.distance
    return (
        np.repeat(ends[:, None], shape[1], axis=1), np.stack(part.arms, axis=2),
        np.full(shape, float(part.point)), distance,
        np.repeat(part.weight[:, None], shape[1], axis=1))


def held_upright(
    body: int, rotation: Array, position: Array, precision: float, *, height: bool
) -> Terms:
    """Terms that hold the heading of a body and its place, all but its height where not `height`.

    The gauge of a map whose vertical is measured: they cost nothing where the body is now, and
    leave its roll and pitch to what measures them. Needs d = 3.
    """
    d = len(position)
    held = [*range(d if height else d - 1)]
    m = len(held) + 1
    arms = np.zeros((m, 2, d))
    arms[:-1, 0] = position
    # The first axis of map as the body sees it now stays in the plane of the first and last.
    arms[-1, 1] = rotation.T[:, 0]
    arms[-1, 0] = np.eye(d)[0]
    ends = np.tile(np.array([[GROUND, body]], dtype=np.int64), (m, 1))
    axis = np.array([*held, 1], dtype=float)
    factor = np.ones(m)
    factor[-1] = 0.0
    return Terms(
        ends, arms, factor, -2.0 - axis, np.full(m, precision),
        np.full(m, Kind.OTHER, dtype=np.int8), np.ones(m, dtype=np.int8), np.full(m, np.inf))


class TermWeights:
    """rho and w = rho'(s) of measurements, s the sum of the squares of a measurement's terms.

    The objective is sum rho(s), whose gradient is that of sum w s at the weights of the same
    point. The Hessian of sum w s bounds its own from above (rho is concave), so that steps
    computed with the weights of an older factor still descend.
    """

    def __init__(self, config: RobustConfig) -> None:
        self._kernel, self._floor = KERNELS[config.kernel], config.weight_floor
        self.trusting = config.kernel == 'none'
        self.values: Array = np.zeros(0)
        """(terms,): factor of each term's square: its precision times the robust weight."""
        self._rho: Array = np.zeros(0)
        """Of each measurement, at its first term."""
        self.believed: Array = np.zeros(0)
        """Weights of measurements at their first terms, 1 = believed, without the floor."""

    def append(self, terms: Terms, last: int) -> None:
        """Take in terms that end before number `last`, at the weights of perfect fits."""
        first = last - len(terms)
        self.values, self._rho, self.believed = (room(column, last) for column in self._columns)
        self.values[first:last] = terms.weight
        self._rho[first:last], self.believed[first:last] = 0.0, 1.0

    def follow(self, chosen: Index, terms: Terms, squares: Array) -> float:
        """Weights at new squares (terms,), precision included; the change of the objective.

        `chosen` lists all terms of the measurements that changed.
        """
        leads = chosen[terms.members[chosen] > 0]
        total = measured(leads, terms, squares)
        doubted = np.isfinite(terms.threshold[leads])
        c2 = terms.threshold[leads][doubted]
        rho, weight = total.copy(), np.ones(len(leads))
        rho[doubted] = self._kernel.rho(total[doubted], c2)
        weight[doubted] = self._kernel.weight(total[doubted], c2)
        change = float(np.sum(rho - self._rho[leads]))
        self._rho[leads], self.believed[leads] = rho, weight
        weight = floored(weight, self._floor)
        for k in range(int(np.max(terms.members[leads], initial=0))):
            longer = terms.members[leads] > k
            at = leads[longer] + k
            self.values[at] = terms.weight[at] * weight[longer]
        return change

    def saved(self, chosen: Index) -> tuple[Array, ...]:
        """Values at these terms, for `restore`."""
        return tuple(column[chosen] for column in self._columns)

    def restore(self, chosen: Index, saved: tuple[Array, ...]) -> None:
        """Undo `follow`."""
        for column, before in zip(self._columns, saved, strict=True):
            column[chosen] = before

    @property
    def _columns(self) -> tuple[Array, ...]:
        return self.values, self._rho, self.believed


def measured(leads: Index, terms: Terms, squares: Array) -> Array:
    """(leads,): squares of measurements, each the sum over its terms."""
    total = squares[leads]
    for k in range(1, int(np.max(terms.members[leads], initial=0))):
        longer = terms.members[leads] > k
        total[longer] += squares[leads[longer] + k]
    return total


@dataclass(frozen=True)
class Update:
    """What an update did."""

    converged: bool
    steps: int
    cliques: int
    """Cliques formed or entered, with repetitions."""
    decrement: float
    """Estimate of the cost that further steps could gain."""


_MOST_STEPS = 20
"""Newton steps of one update; what they leave is taken up by the next update."""
_SLOWEST_RATE = 0.98
"""Rate of convergence that is believed at most: what is left to gain is then 50 decrements. A
decrement of rounding errors no longer falls and must not keep an update going."""
_FRONT_DAMPING = 1e-10
"""Share of its diagonal that is added to a front, and precision of every body in m^-2 and rad^-2:
with rounding a front stays positive definite also where few measurements tie a body."""
_MARGINAL_DAMPING = 1e-12
"""The same for covariances: what nothing determines has a variance too large to be of use, and the
rest keeps its own."""


class IncrementalSolver:
    """Bodies, terms and the factor; bodies that are not variables are constants."""

    def __init__(self, dimension: int, robust: RobustConfig) -> None:
        d = dimension
        self.dimension = d
        self.n_bodies = self.n_terms = 0
        self.rotation: Array = np.zeros((0, d, d))
        self.position: Array = np.zeros((0, d))
        self._point = np.zeros(0, dtype=bool)
        self._variable = np.zeros(0, dtype=bool)
        self._head: Index = np.zeros(0, dtype=np.int64)
        self._terms = Terms.none(d)
        self._weights = TermWeights(robust)
        self._following: Index = np.zeros((0, 2), dtype=np.int64)
        self._squares: Array = np.zeros(0)
        self._mark = np.zeros(0, dtype=bool)
        self._kernel = term_kernels(d)
        self._tree = CliqueTree(d + (1 if d == 2 else 3))
        self._marginals = MarginalFactor(self._tree)
        self._new: list[Index] = []
        self._ends: list[Index] = []
        self._ordered = 0
        self._variables = 0
        self._rate = 0.0
        """Decrement after the last step over that before it: the rate of linear convergence."""
        self.cost = 0.0
        """The objective: with a robust kernel the sum of rho."""

    # -- bodies and terms

    def add_bodies(
        self, rotation: Array, position: Array, point: bool, variable: Mask
    ) -> Index:
        """Add poses, or points, at their initial values; returns their numbers."""
        n, first = len(position), self.n_bodies
        self.n_bodies += n
        last = self.n_bodies
        self.rotation = room(self.rotation, last)
        self.position = room(self.position, last)
        self._point, self._head = room(self._point, last), room(self._head, last)
        self._variable = room(self._variable, last)
        self.rotation[first:last], self.position[first:last] = rotation, position
        self._point[first:last], self._head[first:last] = point, -1
        self._variable[first:last] = variable
        self._tree.reserve(last)
        numbers = np.arange(first, last)
        self._new.append(numbers[self._variable[first:last]])
        self._variables += len(self._new[-1])
        return numbers

    def add_terms(self, terms: Terms) -> None:
        """Add measurements between bodies that are known already."""
        first, last = self.n_terms, self.n_terms + len(terms)
        self.n_terms = last
        columns = {}
        for field in fields(Terms):
            columns[field.name] = room(getattr(self._terms, field.name), last)
            columns[field.name][first:last] = getattr(terms, field.name)
        self._terms = Terms(**columns)
        self._following = room(self._following, last)
        self._squares = room(self._squares, last)
        self._mark = room(self._mark, last)
        self._kernel.chain(first, last, self._chains, self._terms.ends)
        self._squares[first:last] = 0
        self._weights.append(terms, last)
        self.cost += self._measure(np.arange(first, last))
        self._ends.append(terms.ends.ravel())

    @property
    def quadratic_cost(self) -> float:
        """The sum of all squares, at unit robust weights."""
        return float(np.sum(self._squares[: self.n_terms]))

    def measurements(self, kinds: tuple[Kind, ...], first: int, last: int) -> Index:
        """First terms of the measurements of these kinds among terms first .. last - 1."""
        t = self._terms
        chosen = np.isin(t.kind[first:last], kinds) & (t.members[first:last] > 0)
        return first + np.flatnonzero(chosen)

    def squares(self, measurements: Index) -> Array:
        """Squared residuals of measurements, by their first terms."""
        return measured(measurements, self._terms, self._squares)

    def weights(self, measurements: Index) -> Array:
        """Robust weights of measurements, by their first terms."""
        return self._weights.believed[measurements]

    # -- updates

    def update(self, newest: Index, tolerance: float) -> Update:
        """Move everything to the optimum; `newest` lists the bodies that the next measurements
        will touch, which are eliminated last so that few cliques change then."""
        with single_threaded_blas():
            return self._update(newest, tolerance)

    def covariance(self, bodies: Index) -> Array | None:
        """(k b, k b): joint covariance of bodies, each in its own frame, rotation first.

        Zero for constants; of a point only the position counts. By the Fisher information
        under the present robust weights, rotations of the plane with kappa / 2
        (graph/precision.py). Exact where no more than `renewed_cliques` have changed since the
        last call. What nothing determines has a huge variance. None where that fails, or before
        the first update.
        """
        if self._ends or len(_joined(self._new)) or not self._tree.roots:
            return None
        weight = self._weights.values[:self.n_terms]
        if self.dimension == 2:
            weight = np.where(self._terms.position_factor[:self.n_terms] > 0, weight, weight / 2)
        with single_threaded_blas():
            formed = self._marginals.renew(
                self._kernel.form, self._chains, self._terms.columns(weight), self._bodies,
                True, _MARGINAL_DAMPING, most=RENEWED_CLIQUES)
            return self._marginals.covariance(bodies) if formed else None

    def variance_factor(self) -> float:
        """Found over claimed variance of the residuals under robust weights, at least 1."""
        t, n, d = self._terms, self.n_terms, self.dimension
        turns = t.position_factor[:n] == 0
        given = t.weight[:n] > 0
        weight = self._weights.values[:n] / np.where(given, t.weight[:n], 1.0)
        squares = np.where(turns & (d == 2), 0.5, 1.0) * self._squares[:n]
        degrees = np.where(turns, (d - 1) / 2, np.where(t.distance[:n] == -1, d, 1))
        # A direction alone, the vertical; and the one coordinate of it that holds a heading.
        alone = turns & (t.members[:n] == 1)
        degrees[alone] = np.where(t.distance[:n][alone] == -1, d - 1, 1)
        variable = self._variable[:self.n_bodies]
        unknowns = np.sum(np.where(self._point[:self.n_bodies], d, self._tree.b)[variable])
        free = float(weight @ degrees - unknowns)
        return max(1.0, float(weight @ squares) / free) if free > 0 else 1.0

    def _update(self, newest: Index, tolerance: float) -> Update:
        touched, fresh = np.unique(_joined(self._ends)), _joined(self._new)
        if self._variables >= REORDER_GROWTH * self._ordered or self._tree.wasted:
            removed = self._tree.everything()
            self._ordered = self._variables
        else:
            removed = self._tree.above(touched[touched >= 0])
        formed = self._tree.restructure(
            removed, fresh, newest,
            lambda nodes, place: self._kernel.neighbours(
                nodes, place, self._chains, self._terms.ends))
        self._new, self._ends = [], []
        self._marginals.replaced(removed, formed)
        self._form(formed)
        self._refresh(formed)
        cliques, limit, steps = len(formed), ENTERED_GAIN_SHARE * tolerance, 0
        for steps in range(_MOST_STEPS):
            before = self._tree.decrement
            if before <= tolerance * (1 - self._rate):
                return Update(True, steps, cliques, before)
            entered, nodes, by = self._tree.descend(limit)
            cliques += len(entered)
            length = self._move(nodes, by, before)
            if not length:
                break
            rhs = self._refresh(entered[::-1])
            after = self._tree.decrement
            self._rate = min(after / before, _SLOWEST_RATE)
            # A step with the exact Hessian leaves far less near an optimum.
            poor = after > max(0.1 * before, tolerance)
            if poor or length < 0.5:
                self._form(entered[::-1])
                self._tree.forward(entered[::-1], rhs)
                if after > 0.5 * before:
                    limit *= 0.1
            if cliques > MOST_CLIQUES:
                break
        return Update(False, steps, cliques, self._tree.decrement)

    def _move(self, nodes: Index, by: Array, gain: float) -> float:
        """Take a step of predicted gain `gain`, or the multiple of it that fits the cost better.

        Returns the multiple, 0 where none lowers the cost.
        """
        terms = self._kernel.touched(nodes, self._chains, self._mark)
        ends = self._terms.ends[terms].ravel()
        cliques = self._tree.clique_of[ends[ends >= 0]]
        self._marginals.changed(cliques[cliques >= 0])
        before = (
            self.rotation[nodes], self.position[nodes], self._tree.moved[nodes],
            self._squares[terms])
        weights = self._weights.saved(terms)
        length, longest = 1.0, 3.0
        for _ in range(4):
            self._kernel.move(nodes, length * by, self._bodies, self._tree.moved)
            change = self._measure(terms)
            curvature = (change + 2 * length * gain) / length**2
            best = min(gain / curvature, longest) if curvature > 0 else longest
            # A fifth off the best length of the parabola loses 6 % of the gain at most.
            if change <= 0 and (abs(best - length) < 0.2 * length or length != 1):
                self.cost += change
                return length
            (self.rotation[nodes], self.position[nodes], self._tree.moved[nodes],
             self._squares[terms]) = before
            self._weights.restore(terms, weights)
            length = best
        return 0.0

    def _refresh(self, cliques: Index) -> Array:
        """Gradients of cliques, children first: right-hand sides (inner nodes of them, b)."""
        nodes = self._tree.inner_nodes(cliques)
        rhs = np.empty((len(nodes), self._tree.b))
        self._kernel.gradient(nodes, self._chains, self._weighted, self._bodies, rhs)
        np.negative(rhs, out=rhs)
        self._tree.forward(cliques, rhs)
        return rhs

    def _form(self, cliques: Index) -> None:
        """Factorise cliques of the convex part of the Hessian.

        A range that is longer than its bodies are apart has negative curvature across its
        direction, which would make weak directions seem softer than they are.
        """
        self._tree.factorise(
            cliques, self._kernel.form, self._chains, self._weighted, self._bodies, False,
            _FRONT_DAMPING)

    def _measure(self, terms: Index) -> float:
        """Squares and weights of terms at the present poses; the change of the objective."""
        t = self._terms
        change = float(self._kernel.squares(
            terms, t.columns(t.weight), self._bodies, self._squares))
        return change if self._weights.trusting else self._weights.follow(
            terms, t, self._squares)

    @property
    def _bodies(self) -> Bodies:
        return Bodies(self.rotation, self.position, self._point, self._variable)

    @property
    def _chains(self) -> TermChains:
        return TermChains(self._head, self._following)

    @property
    def _weighted(self) -> TermColumns:
        """The terms with their robust weights."""
        return self._terms.columns(self._weights.values)


def _joined(parts: list[Index]) -> Index:
    return np.concatenate([np.zeros(0, dtype=np.int64), *parts])
