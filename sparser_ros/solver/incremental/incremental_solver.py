"""A trajectory of rank d kept at its optimum while measurements come: work for what changes only.

The cost is quadratic in X, so nothing is ever linearised away: the terms of all measurements stay,
their gradient is formed anew, exactly, wherever something moved, and the factor of the Hessian
(`linalg/clique_tree`) serves to find steps. It is that of the Hessian's convex part where it was
formed last, and is formed anew wherever steps fall short of what it promised. With a robust kernel
the objective is sum rho, and weights move with the residuals (term_weights.py).

An update ends when the decrement, the squared norm of the gradient in the inverse Hessian, is
within its tolerance. Since the cost has no factor 1/2, every coordinate is then within the square
root of the decrement, in its own standard deviations, of the optimum. Where nothing was entered
because next to nothing had moved, the gradient is that of the quadratic model; and as the factor
may be older than the gradient, a decrement is an estimate (in tests within a third).
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from ...config import RobustConfig
from ...linalg.blas import single_threaded_blas
from ...linalg.clique_tree.clique_tree import CliqueTree, room
from ...linalg.clique_tree.term_kernels import term_kernels
from .term_weights import TermWeights, measured
from .terms import Kind, Terms

Array = NDArray[np.float64]
Index = NDArray[np.int64]
Mask = NDArray[np.bool_]

_MOST_STEPS = 20
_MOST_TRIALS, _LONGEST, _NEAR = 4, 3.0, 0.2
"""Of lengths of a step; a length as near as that to the best one will do."""
_SLOW = 0.1
"""Share of the decrement that a step may leave before the factor is formed anew."""
_SHORT = 0.5
"""Share of a step below which the factor is formed anew: elsewhere, too, it is far off."""
_LEFT = 0.02
"""Share of the tolerance that not entering one subtree may cost."""
_DAMPING = 1e-10
_REGROWN = 2.0
"""OdometrySegments, over those at the last ordering of all, from where all are ordered anew."""


@dataclass(frozen=True)
class Update:
    """What an update did."""

    converged: bool
    steps: int
    cliques: int
    """Cliques formed or entered, each as often as it was."""
    decrement: float
    """Estimate of the cost that is left to gain."""


class IncrementalSolver:
    """Bodies, terms and the factor; bodies that are no variables stay where they are put."""

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
        self._new: list[Index] = []
        self._ends: list[Index] = []
        self._ordered = 0
        self._variables = 0
        self.cost = 0.0
        """The objective: with a robust kernel the sum of rho."""

    # -- what there is

    def add_bodies(
        self, rotation: Array, position: Array, point: bool, variable: Mask
    ) -> Index:
        """New poses, or points, where they are supposed to be; returns their numbers."""
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
        self._kernel.chain(first, last, self._head, self._following, self._terms.ends)
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
        return self._weights.of(measurements)

    # -- updates

    def update(self, newest: Index, tolerance: float) -> Update:
        """Move everything to the optimum; `newest` lists bodies that new ones will be tied to."""
        with single_threaded_blas():
            return self._update(newest, tolerance)

    def _update(self, newest: Index, tolerance: float) -> Update:
        touched, fresh = np.unique(_joined(self._ends)), _joined(self._new)
        if self._variables >= _REGROWN * self._ordered or self._tree.wasted:
            removed = self._tree.everything()
            self._ordered = self._variables
        else:
            removed = self._tree.above(touched[touched >= 0])
        formed = self._tree.restructure(removed, fresh, newest, self._neighbours)
        self._new, self._ends = [], []
        self._refresh(formed, anew=True)
        cliques, limit, steps = len(formed), _LEFT * tolerance, 0
        for steps in range(_MOST_STEPS):
            before = self._tree.decrement
            if before <= tolerance:
                return Update(True, steps, cliques, before)
            entered, nodes, by = self._tree.descend(limit)
            cliques += len(entered)
            length = self._move(nodes, by, before)
            if not length:
                break
            self._refresh(entered[::-1], False)
            after = self._tree.decrement
            if after > max(_SLOW * before, tolerance) or length < _SHORT:
                self._refresh(entered[::-1], True)
                limit *= 0.1 if after > 0.5 * before else 1.0
        return Update(False, steps, cliques, self._tree.decrement)

    def _move(self, nodes: Index, by: Array, gain: float) -> float:
        """Take a step that is to gain so much, or the share of it that fits the cost better.

        The share taken is returned, 0 where none is found.
        """
        terms = self._touched(nodes)
        before = (
            self.rotation[nodes], self.position[nodes], self._tree.moved[nodes],
            self._squares[terms])
        weights = self._weights.saved(terms)
        length = 1.0
        for _ in range(_MOST_TRIALS):
            self._kernel.move(nodes, length * by, self.rotation, self.position, self._tree.moved)
            change = self._measure(terms)
            curvature = (change + 2 * length * gain) / length**2
            best = min(gain / curvature, _LONGEST) if curvature > 0 else _LONGEST
            if change <= 0 and abs(best - length) < _NEAR * length:
                self.cost += change
                return length
            if change <= 0 and length != 1:
                self.cost += change
                return length
            (self.rotation[nodes], self.position[nodes], self._tree.moved[nodes],
             self._squares[terms]) = before
            self._weights.restore(terms, weights)
            length = best
        return 0.0

    def _refresh(self, cliques: Index, anew: bool) -> None:
        """Gradients of cliques, children first, and their columns where formed `anew`."""
        if anew:
            self._form(cliques)
        t = self._terms
        nodes = self._tree.inner_nodes(cliques)
        gradient = np.empty((len(nodes), self._tree.b))
        self._kernel.gradient(
            nodes, self._head, self._following, t.ends, t.arms, t.carried, t.distance,
            self._weights.values, self.rotation, self.position, gradient)
        self._tree.forward(cliques, -gradient)

    def _form(self, cliques: Index) -> None:
        """Columns of cliques, of what is convex in the Hessian.

        Where bodies stand closer than their range was measured, it bends the cost downwards across
        its direction. With that, weak directions look softer than they are, and steps overshoot.
        """
        t = self._terms
        self._tree.factorise(
            cliques, self._kernel.form, self._head, self._following, t.ends, t.arms, t.carried,
            t.distance, self._weights.values, self.rotation, self.position, self._point,
            self._variable, _DAMPING)

    def _measure(self, terms: Index) -> float:
        """Squares and weights of terms as bodies stand now; the change of the objective."""
        t = self._terms
        change = float(self._kernel.squares(
            terms, t.ends, t.arms, t.carried, t.distance, t.weight, self.rotation, self.position,
            self._squares))
        return change if self._weights.trusting else self._weights.follow(
            terms, t, self._squares)

    def _touched(self, nodes: Index) -> Index:
        out = np.empty(8 * len(nodes) + 64, dtype=np.int64)
        while True:
            count = self._kernel.touched(nodes, self._head, self._following, self._mark, out)
            if count >= 0:
                return out[:count]
            out = np.empty(4 * len(out), dtype=np.int64)

    def _neighbours(self, nodes: Index, place: Index) -> Index:
        out = np.empty((8 * len(nodes) + 64, 2), dtype=np.int64)
        while True:
            count = self._kernel.neighbours(
                nodes, place, self._head, self._following, self._terms.ends, out)
            if count >= 0:
                return out[:count]
            out = np.empty((4 * len(out), 2), dtype=np.int64)


def _joined(parts: list[Index]) -> Index:
    return np.concatenate([np.zeros(0, dtype=np.int64), *parts])
