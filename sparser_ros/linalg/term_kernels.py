"""Kernels over terms of the cost: squares, gradients, Hessian blocks, steps of the bodies.

A body is a pose (rotation R, position t) or a point (R = I, never turned). A term has two ends,
each a vector p = c t + R a of a body, or a constant a in the map; c = 1 makes it a point fixed to
the body, c = 0 a direction. The term's square is w |p_1 - p_0|^2, or, with a measured distance,
w (|p_1 - p_0| - distance)^2, or that of one coordinate of p_1 - p_0, in map. Tangents are in the
frame of the body, R exp(omega), t + R v, rotation first: a rigid motion of many bodies leaves the
Hessian blocks of their terms unchanged.

`axes` is a tuple of d zeros. Its length is part of its type, so that d is a constant where loops
are compiled. Closures over d would do that too, but numba caches none that calls another.
"""

from __future__ import annotations

from functools import cache, partial
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np

from ..array_types import Array, Index, Mask
from .clique_tree import eliminate_front
from .compiled import compiled

_compiled = compiled(error_model='numpy')
_LEAST_LENGTH_M = 1e-9
"""Distance between antennas below which a bearing has no direction: `LEAST_LENGTH_M` of the
solver, as compiled loops take it."""


class TermColumns(NamedTuple):
    """Terms in columns of equal length k."""

    ends: Index
    """(k, 2): bodies, -1 = the map."""
    arms: Array
    """(k, 2, d): a, in the frames of the ends."""
    position_factor: Array
    """(k,): c, 1 for points fixed to bodies, 0 for directions."""
    distance: Array
    """(k,): measured distance in metres; -1 where the two ends should coincide, -2 - x where their
    coordinates x should."""
    weight: Array
    """(k,): w, the precision, times the robust weight where that counts."""


class TermChains(NamedTuple):
    """The terms of each body as linked lists of links 2 x term + side, -1 at the end."""

    head: Index
    """(bodies,): first link of each body."""
    following: Index
    """(k, 2): the link after each."""


class Bodies(NamedTuple):
    """Where the bodies are."""

    rotation: Array
    """(bodies, d, d)"""
    position: Array
    """(bodies, d)"""
    point: Mask
    """(bodies,): points, whose rotation is the identity."""
    variable: Mask
    """(bodies,): the others are constants."""


@_compiled
def _turns(axes):  # type: ignore[no-untyped-def]
    """Degrees of freedom of a rotation."""
    return 1 if len(axes) == 2 else 3


@_compiled
def _jacobian(axes, turn, arm, position_factor, out):  # type: ignore[no-untyped-def]
    """out (d, b): derivative of c t + R a."""
    d, q = len(axes), _turns(axes)
    for r in range(d):
        if d == 2:
            out[r, 0] = turn[r, 1] * arm[0] - turn[r, 0] * arm[1]
        else:
            out[r, 0] = turn[r, 2] * arm[1] - turn[r, 1] * arm[2]
            out[r, 1] = turn[r, 0] * arm[2] - turn[r, 2] * arm[0]
            out[r, 2] = turn[r, 1] * arm[0] - turn[r, 0] * arm[1]
        for c in range(d):
            out[r, q + c] = position_factor * turn[r, c]


@_compiled
def _difference(axes, k, terms, bodies, out):  # type: ignore[no-untyped-def]
    """out (d,): p_1 - p_0 of a term."""
    d = len(axes)
    ends, arms, position_factor = terms.ends, terms.arms, terms.position_factor
    rotation, position = bodies.rotation, bodies.position
    for r in range(d):
        out[r] = 0.0
        for side in range(2):
            i = ends[k, side]
            p = arms[k, side, r]
            if i >= 0:
                p = position_factor[k] * position[i, r]
                for c in range(d):
                    p += rotation[i, r, c] * arms[k, side, c]
            out[r] += p if side else -p


@_compiled
def squares(axes, chosen, terms, bodies, out):  # type: ignore[no-untyped-def]
    """out[k]: weighted squares of the chosen terms; the sum of their changes is returned."""
    d = len(axes)
    distance, weight = terms.distance, terms.weight
    v = np.empty(d)
    change = 0.0
    for k in chosen:
        _difference(axes, k, terms, bodies, v)
        s = 0.0
        for r in range(d):
            s += v[r] * v[r]
        if distance[k] >= 0:
            s = (np.sqrt(s) - distance[k]) ** 2
        elif distance[k] < -1.5:
            s = v[int(-1.5 - distance[k])] ** 2
        change += weight[k] * s - out[k]
        out[k] = weight[k] * s
    return change


@_compiled
def _residual(axes, k, v, distance, u):  # type: ignore[no-untyped-def]
    """v becomes the residual; (c, u): the second derivative is u u^T + c (I - u u^T)."""
    d = len(axes)
    if distance[k] < 0:
        for r in range(d):
            u[r] = 0.0
        if distance[k] > -1.5:
            return 1.0
        only = int(-1.5 - distance[k])
        for r in range(d):
            if r == only:
                u[r] = 1.0
            else:
                v[r] = 0.0
        return 0.0
    length = 0.0
    for r in range(d):
        length += v[r] * v[r]
    length = np.sqrt(length)
    for r in range(d):
        u[r] = v[r] / length if length > _LEAST_LENGTH_M else (1.0 if r == 0 else 0.0)
    error = length - distance[k]
    for r in range(d):
        v[r] = error * u[r]
    return error / max(length, _LEAST_LENGTH_M)


@_compiled
def gradient(axes, nodes, chains, terms, bodies, out):  # type: ignore[no-untyped-def]
    """out (nodes, b): half the derivative of the sum of all squares."""
    d = len(axes)
    head, following = chains
    arms, position_factor, weight = terms.arms, terms.position_factor, terms.weight
    rotation = bodies.rotation
    b = _turns(axes) + d
    v, u, jac = np.empty(d), np.empty(d), np.empty((d, b))
    for m in range(len(nodes)):
        i = nodes[m]
        for x in range(b):
            out[m, x] = 0.0
        link = head[i]
        while link >= 0:
            k, side = link // 2, link % 2
            _difference(axes, k, terms, bodies, v)
            _residual(axes, k, v, terms.distance, u)
            _jacobian(axes, rotation[i], arms[k, side], position_factor[k], jac)
            w = weight[k] if side else -weight[k]
            for r in range(d):
                for x in range(b):
                    out[m, x] += w * v[r] * jac[r, x]
            link = following[k, side]


@_compiled
def _apply(axes, u, c, weight, jac, out):  # type: ignore[no-untyped-def]
    """out (d, b): the second derivative, weight (u u^T + c (I - u u^T)), times a Jacobian."""
    d = len(axes)
    for x in range(_turns(axes) + d):
        along = 0.0
        for r in range(d):
            along += u[r] * jac[r, x]
        for r in range(d):
            out[r, x] = weight * (c * jac[r, x] + (1.0 - c) * along * u[r])


@_compiled
def _add_product(axes, sign, left, right, front, row, column):  # type: ignore[no-untyped-def]
    """Add sign left^T right, both (d, b), to a block of a front."""
    d = len(axes)
    b = _turns(axes) + d
    for x in range(b):
        for y in range(b):
            s = 0.0
            for r in range(d):
                s += left[r, y] * right[r, x]
            front[row * b + y, column * b + x] += sign * s


@_compiled
def _carry(axes, turn, arm, other, out):  # type: ignore[no-untyped-def]
    """out (d,): a direction given in one frame, in the frame of another."""
    d = len(axes)
    for r in range(d):
        out[r] = 0.0
    for e in range(d):
        s = 0.0
        for c in range(d):
            s += turn[e, c] * arm[c]
        for r in range(d):
            out[r] += other[e, r] * s


@_compiled
def _reach(axes, turn, v, arm):  # type: ignore[no-untyped-def]
    """Lengthen the arm (d,) of a body by v, given in map: it then ends where the other one does."""
    d = len(axes)
    for r in range(d):
        for x in range(d):
            arm[r] += turn[x, r] * v[x]


@_compiled
def _assemble(axes, nodes, inner, place, chains, terms, bodies, fisher, front):  # type: ignore[no-untyped-def]
    """Add the convex part of a clique's own terms to its front, lower triangle and diagonal.

    Its own terms are those of an inner node whose other end is in the front or constant. With
    `fisher` residuals count as zero: a range has no curvature across its direction, and the two
    directions of a rotation are one, as are two points that coincide, or turning both ends alike
    would cost something. All blocks of a term are added at once, so that their sum is positive
    semidefinite also where bodies have moved since the last front was formed.
    """
    d, q = len(axes), _turns(axes)
    b = q + d
    head, following = chains
    ends, arms, position_factor, distance, weight = terms
    rotation, _, point, variable = bodies
    v, u, arm = np.empty(d), np.empty(d), np.empty(d)
    spread = np.empty((d, b))
    own, other, turned = np.empty((d, b)), np.empty((d, b)), np.empty((d, b))
    for m in range(inner):
        i = nodes[m]
        link = head[i]
        while link >= 0:
            k, side = link // 2, link % 2
            link = following[k, side]
            j = ends[k, 1 - side]
            at = place[j] if j >= 0 and j != i else -1
            if (j == i and side) or (at < 0 and j >= 0 and j != i and variable[j]):
                continue
            _difference(axes, k, terms, bodies, v)
            c = max(_residual(axes, k, v, distance, u), 0.0)
            if fisher and distance[k] >= 0:
                c = 0.0
            coincide = fisher and position_factor[k] != 0 and -1.5 < distance[k] < 0
            for r in range(d):
                arm[r] = arms[k, side, r]
            if coincide and not side:
                _reach(axes, rotation[i], v, arm)
            if fisher and j < 0 and position_factor[k] == 0 and distance[k] > -1.5:
                # A direction of map as the body sees it: a turn about it tells nothing.
                for r in range(d):
                    arm[r] = 0.0
                    for x in range(d):
                        arm[r] += rotation[i, x, r] * arms[k, 1 - side, x]
            _jacobian(axes, rotation[i], arm, position_factor[k], own)
            if j >= 0:
                for r in range(d):
                    arm[r] = arms[k, 1 - side, r]
                if coincide and side:
                    _reach(axes, rotation[j], v, arm)
                if fisher and position_factor[k] == 0:
                    _carry(axes, rotation[i], arms[k, side], rotation[j], arm)
                _jacobian(axes, rotation[j], arm, position_factor[k], other)
            if j == i:
                # Both ends on one body: one Jacobian, on the diagonal.
                for r in range(d):
                    for x in range(b):
                        own[r, x] -= other[r, x]
            _apply(axes, u, c, weight[k], own, turned)
            _add_product(axes, 1.0, own, turned, front, m, m)
            if at < 0:
                continue
            _add_product(axes, -1.0, other, turned, front, at, m)
            if at < inner:
                continue
            _apply(axes, u, c, weight[k], other, spread)
            _add_product(axes, 1.0, other, spread, front, at, at)
        if point[i]:
            for x in range(q):
                front[m * b + x, m * b + x] += 1.0


@_compiled
def form(axes, cliques, tree, chains, terms, bodies, fisher, damping):  # type: ignore[no-untyped-def]
    """Factor the fronts of cliques, children first; False where one is not PD.

    Of the convex part of the Hessian, or with `fisher` of the information at zero residuals.
    """
    b = _turns(axes) + len(axes)
    table, integers, place = tree.table, tree.integers, tree.place
    for clique in cliques:
        inner, at = table[clique, 0], table[clique, 2]
        nodes = integers[at : at + inner + table[clique, 1]]
        front = np.zeros((len(nodes) * b, len(nodes) * b))
        for m in range(len(nodes)):
            place[nodes[m]] = m
        _assemble(axes, nodes, inner, place, chains, terms, bodies, fisher, front)
        for m in range(len(nodes)):
            place[nodes[m]] = -1
        # Also what outer nodes get of these terms: a pose that nothing else ties has no other.
        for x in range(len(front)):
            front[x, x] *= 1 + damping
        # A single range along an axis leaves a diagonal of zero across it, and for a heading.
        for x in range(inner * b):
            front[x, x] += damping
        if not eliminate_front(clique, tree, b, front):
            return False
    return True


@_compiled
def _links(nodes, chains):  # type: ignore[no-untyped-def]
    """How many terms nodes have, those of two of them counted twice."""
    count = 0
    for i in nodes:
        link = chains.head[i]
        while link >= 0:
            count += 1
            link = chains.following[link // 2, link % 2]
    return count


@_compiled
def neighbours(nodes, place, chains, ends):  # type: ignore[no-untyped-def]
    """(k, 2): pairs of places of nodes that share a term."""
    head, following = chains
    out = np.empty((_links(nodes, chains), 2), dtype=np.int64)
    count = 0
    for i in nodes:
        link = head[i]
        previous = -1
        while link >= 0:
            k, side = link // 2, link % 2
            j = ends[k, 1 - side]
            # The parts of one measurement follow each other.
            if j > i and place[j] >= 0 and j != previous:
                out[count, 0], out[count, 1] = place[i], place[j]
                count += 1
                previous = j
            link = following[k, side]
    return out[:count]


@_compiled
def chain(first, last, chains, ends):  # type: ignore[no-untyped-def]
    """Add terms first .. last - 1 to the chains of their bodies."""
    head, following = chains
    for k in range(first, last):
        for side in range(2):
            i = ends[k, side]
            following[k, side] = -1
            if i >= 0:
                following[k, side] = head[i]
                head[i] = 2 * k + side


@_compiled
def touched(nodes, chains, mark):  # type: ignore[no-untyped-def]
    """The terms of nodes, each once. `mark` (terms,) is scratch, False between calls."""
    head, following = chains
    out = np.empty(_links(nodes, chains), dtype=np.int64)
    count = 0
    for i in nodes:
        link = head[i]
        while link >= 0:
            k, side = link // 2, link % 2
            if not mark[k]:
                mark[k] = True
                out[count] = k
                count += 1
            link = following[k, side]
    for e in range(count):
        mark[out[e]] = False
    return out[:count]


@_compiled
def move(axes, nodes, steps, bodies, total):  # type: ignore[no-untyped-def]
    """R <- R exp(omega), t <- t + R v; rotations stay orthonormal to rounding errors."""
    rotation, position = bodies.rotation, bodies.position
    d, q = len(axes), _turns(axes)
    b = q + d
    turn, old = np.empty((d, d)), np.empty((d, d))
    for m in range(len(nodes)):
        i = nodes[m]
        for x in range(b):
            total[i, x] += steps[m, x]
        for r in range(d):
            for c in range(d):
                position[i, r] += rotation[i, r, c] * steps[m, q + c]
        if d == 2:
            cosine, sine = np.cos(steps[m, 0]), np.sin(steps[m, 0])
            turn[0, 0], turn[0, 1], turn[1, 0], turn[1, 1] = cosine, -sine, sine, cosine
        else:
            angle = np.sqrt(steps[m, 0] ** 2 + steps[m, 1] ** 2 + steps[m, 2] ** 2)
            if angle == 0.0:
                continue
            f = np.sin(angle) / angle
            g = 2 * (np.sin(angle / 2) / angle) ** 2
            for r in range(d):
                for c in range(d):
                    turn[r, c] = g * steps[m, r] * steps[m, c]
                turn[r, r] += np.cos(angle)
            turn[0, 1] -= f * steps[m, 2]
            turn[1, 0] += f * steps[m, 2]
            turn[0, 2] += f * steps[m, 1]
            turn[2, 0] -= f * steps[m, 1]
            turn[1, 2] -= f * steps[m, 0]
            turn[2, 1] += f * steps[m, 0]
        for r in range(d):
            for c in range(d):
                s = 0.0
                for e in range(d):
                    s += rotation[i, r, e] * turn[e, c]
                old[r, c] = s
        # One Newton step towards the nearest rotation: R (3 I - R^T R) / 2.
        for r in range(d):
            for c in range(d):
                s = 3.0 if r == c else 0.0
                for e in range(d):
                    s -= old[e, r] * old[e, c]
                turn[r, c] = 0.5 * s
        for r in range(d):
            for c in range(d):
                s = 0.0
                for e in range(d):
                    s += old[r, e] * turn[e, c]
                rotation[i, r, c] = s


@cache
def term_kernels(d: int) -> SimpleNamespace:
    """The kernels of dimension d."""
    axes = (0,) * d
    return SimpleNamespace(
        squares=partial(squares, axes), gradient=partial(gradient, axes),
        form=partial(form, axes), move=partial(move, axes),
        neighbours=neighbours, chain=chain, touched=touched)
