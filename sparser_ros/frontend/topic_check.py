"""Topics that a configuration expects, compared with those that exist: a bag's, or a network's."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping

from ..config.inputs_config import CLOSURE_TYPES, RANGE_TYPES, SIGHTING_TYPES
from ..graph.finding import Finding
from .inputs import Inputs, Route

ODOMETRY_TYPE = 'nav_msgs/msg/Odometry'
INPUT_TYPES = {
    ODOMETRY_TYPE: 'odometry',
    **dict.fromkeys(RANGE_TYPES.values(), 'ranges'),
    SIGHTING_TYPES['landmark_sighting']: 'sightings',
    **dict.fromkeys(CLOSURE_TYPES.values(), 'closures'),
}
"""Message types that are made for one kind of input; others, such as poses, serve many ends."""
OPTION = {
    'odometry': 'odometry.topic', 'ranges': 'ranges.inputs', 'sightings': 'sightings.inputs',
    'closures': 'closures.inputs', 'fixes': 'fixes.topic', 'frames': 'frames.static_topic'}
"""The parameter that names the topics of a kind of input."""
NEEDED = ('odometry', 'ranges')
"""Kinds whose absence is named even where no other topic could be meant."""


def topic_findings(
    inputs: Inputs, topics: Mapping[str, str], known: Collection[str] = ()
) -> tuple[Finding, ...]:
    """What of the existing topics (name: type) does not go with the configuration, in words.

    `known`: topics that are used otherwise, such as ground truth.
    """
    routes = {topic: inputs.match(topic, kind) for topic, kind in topics.items()}
    unused = {
        topic: kind for topic, kind in topics.items()
        if routes[topic] is None and topic not in known}
    heard = {route.topic.lstrip('/') for route in routes.values() if route is not None}
    named: set[str] = set()
    found = []
    for route in inputs.routes:
        if route.topic.lstrip('/') in heard or route.kind == 'frames':
            continue
        missing, meant = _missing(route, unused)
        named.add(meant)
        found += missing
    kinds = {route.kind for route in routes.values() if route is not None}
    found += [Finding(
        'input_unheard', OPTION[kind],
        f'no topic matches the regular expressions of {OPTION[kind]}')
        for kind in sorted(inputs.pattern_kinds - kinds)]
    found += _mistyped(topics, routes)
    return (*found, *_unused({
        topic: kind for topic, kind in unused.items() if kind in INPUT_TYPES and topic not in named
    }))


def _unused(topics: Mapping[str, str]) -> list[Finding]:
    """Topics of our message types that no parameter names, one sentence for each type."""
    found = []
    for kind in sorted(set(topics.values())):
        names = sorted(topic for topic, one in topics.items() if one == kind)
        what = OPTION[INPUT_TYPES[kind]]
        found.append(Finding(
            'input_unused', names[0],
            f'not used, although of type {kind}: {", ".join(names)} (see robots and {what})'))
    return found


def _missing(route: Route, unused: Mapping[str, str]) -> tuple[list[Finding], str]:
    """A topic of the configuration that does not exist, and the one that may be meant."""
    alike = [topic for topic, kind in unused.items() if kind == route.type]
    near = difflib.get_close_matches(route.topic, alike, n=1, cutoff=0.0)
    if not near and route.kind not in NEEDED:
        return [], ''
    hint = f'; is {near[0]} meant?' if near else ''
    return [Finding(
        'input_unheard', route.topic,
        f'there is no topic {route.topic} ({OPTION[route.kind]}){hint}')], near[0] if near else ''


def _mistyped(topics: Mapping[str, str], routes: Mapping[str, Route | None]) -> list[Finding]:
    return [
        Finding('input_type', topic,
                f'{topic} is a {topics[topic]}, but {OPTION[route.kind]} expects {route.type}')
        for topic, route in routes.items()
        if route is not None and route.type and topics[topic] != route.type]
