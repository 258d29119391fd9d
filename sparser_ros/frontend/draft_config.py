"""A configuration drafted from the topics of a bag: robots, radios and inputs by their names."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any

import numpy as np

from ..array_types import Array
from ..config.inputs_config import CLOSURE_TYPES, RANGE_TYPES, SIGHTING_TYPES
from ..io.bag_survey import TopicSurvey
from .carried_radios import carried_radios
from .topic_check import ODOMETRY_TYPE

TRUTH = re.compile(r'truth|mocap|vrpn|optitrack|vicon|(?:^|[/_])gt(?:[/_]|$)', re.IGNORECASE)
"""Topics of a reference, which must not count as odometry."""
TRUTH_TYPES = (ODOMETRY_TYPE, 'geometry_msgs/msg/PoseStamped',
               'geometry_msgs/msg/PoseWithCovarianceStamped')


def draft(topics: Sequence[TopicSurvey]) -> tuple[dict[str, Any], list[str]]:
    """Parameters, and what a reader has to check or add, in words."""
    notes: list[str] = []
    odometry = {t.topic: t.count for t in topics
                if t.type == ODOMETRY_TYPE and t.count and not TRUTH.search(t.topic)}
    config: dict[str, Any] = {'dimension': 2}
    template, robots = _robots(odometry)
    inputs, radios = _ranges(topics)
    strangers = sorted(radios - set(robots))
    tracks = {robot: _track(topics, template.replace('{robot}', robot)) for robot in robots}
    carried = carried_radios(tracks, _pairs(topics, inputs)) if strangers else None
    if carried is not None and carried.robot:
        # A robot that stands still looks like a beacon, and ranges cannot place it otherwise.
        still = [robot for robot in carried.standing if robot not in radios]
        robots = [robot for robot in robots if robot not in still]
        notes += _carried_notes(
            {radio: robot for radio, robot in carried.robot.items() if radio in strangers},
            [radio for radio in carried.doubtful if radio in strangers], still)
    if robots:
        config |= {'robots': robots, 'odometry': {'topic': template}}
    else:
        notes.append(f'no topic of {ODOMETRY_TYPE}: a solve needs the odometry of every robot')
    if inputs:
        config['ranges'] = {'inputs': inputs}
    else:
        notes.append('no topic of ranges that is known by its type: see ranges.inputs, adapter '
                     'fields')
    seen = [t.topic for t in topics if t.type == SIGHTING_TYPES['landmark_sighting'] and t.count]
    if seen:
        config['sightings'] = {'inputs': {
            f'landmarks{number or ""}': {'topic': topic, 'adapter': 'landmark_sighting'}
            for number, topic in enumerate(seen)}}
    if strangers:
        known = carried.robot if carried is not None else {}
        config['radios'] = {name: {'robot': known[name]} if name in known else {'beacon': name}
                            for name in strangers}
        beacons = [name for name in strangers if name not in known]
        if beacons:
            notes.append(
                f'{len(beacons)} radios are drafted as beacons of unknown position: '
                f'{", ".join(beacons)}. Those that a robot carries need `robot: NAME` instead')
    if not any(t.type in CLOSURE_TYPES.values() for t in topics):
        notes.append('no loop closures: robots are tied by ranges alone')
    truth = {robot: topic for robot in robots if (topic := _truth(topics, robot))}
    if truth:
        config['backend'] = {'truth_topics': truth}
    config['solver'] = {'robust': {'kernel': 'gm', 'gnc': True}}
    return config, notes


def _carried_notes(
    carried: Mapping[str, str], doubtful: Sequence[str], still: Sequence[str]
) -> list[str]:
    notes = []
    if carried:
        notes.append(', '.join(f'{radio} moves with {robot}' for radio, robot in carried.items())
                     + ': drafted as their radios; a lever arm [x, y, z] of the antenna makes '
                     'ranges exact')
    if doubtful:
        notes.append(f'the motion does not tell who carries {", ".join(doubtful)}')
    if still:
        notes.append(
            f'left out, since they stand still in this recording: {", ".join(still)}. Add each to '
            '`robots`, and its radio with `robot: NAME`, where it moves')
    return notes


def _track(topics: Sequence[TopicSurvey], topic: str) -> Array:
    """(n, 3) of seconds, x, y; empty without such a topic."""
    values = [t.track for t in topics if t.topic == topic and t.track]
    return np.array(values[0]) if values else np.zeros((0, 3))


def _pairs(
    topics: Sequence[TopicSurvey], inputs: Mapping[str, Mapping[str, str]]
) -> dict[tuple[str, str], Array]:
    """(m, 2) of seconds and ranges, by pair of radios."""
    pattern = inputs['pairs']['topic'] if 'pairs' in inputs else ''
    found: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    for one in topics:
        hit = re.fullmatch(pattern, one.topic) if pattern else None
        for pair, seconds, value in zip(
                one.range_pairs, one.range_stamps_s, one.ranges_m, strict=True):
            if hit is not None:
                found[hit['source'], hit['target']].append((seconds, value))
            elif all(pair):
                found[pair].append((seconds, value))
    return {pair: np.array(values) for pair, values in found.items()}


def _truth(topics: Sequence[TopicSurvey], robot: str) -> str:
    """The topic of a robot's reference, by its name or number; '' = none."""
    for one in topics:
        if one.type not in TRUTH_TYPES or not one.count or not TRUTH.search(one.topic):
            continue
        numbers = {int(text) for text in re.findall(r'\d+', one.topic)}
        if robot in one.topic.split('/') or (robot.isdigit() and int(robot) in numbers):
            return one.topic
    return ''


def _robots(topics: Mapping[str, int]) -> tuple[str, list[str]]:
    """Topics that differ in one name, those with most messages: ('/{robot}/odom', ['A', 'B'])."""
    groups: dict[tuple[int, str], list[str]] = defaultdict(list)
    for topic in topics:
        groups[topic.count('/'), topic.rpartition('/')[2]].append(topic)
    if not groups:
        return '', []
    chosen = max(groups.values(), key=lambda group: sum(topics[topic] for topic in group))
    if len(chosen) == 1:
        name = chosen[0].strip('/').split('/')[0]
        named = f'/{name}/' in chosen[0]
        return (chosen[0].replace(f'/{name}/', '/{robot}/', 1), [name]) if named else (
            chosen[0], ['robot'])
    # Numbers stay whole: turtle01 and turtle03 are 01 and 03.
    head = _common(chosen).rstrip('0123456789')
    tail = _common([topic[::-1] for topic in chosen])[::-1].lstrip('0123456789')
    names = [topic[len(head):len(topic) - len(tail)] for topic in chosen]
    return f'{head}{{robot}}{tail}', names


def _common(texts: Sequence[str]) -> str:
    """The longest beginning that all texts share, letter by letter."""
    alike = takewhile(lambda letters: len(set(letters)) == 1, zip(*texts, strict=False))
    return ''.join(letters[0] for letters in alike)


def _ranges(topics: Sequence[TopicSurvey]) -> tuple[dict[str, Any], set[str]]:
    """Entries of ranges.inputs, and the names of radios."""
    inputs: dict[str, Any] = {}
    radios: set[str] = set()
    for one in topics:
        if one.type == RANGE_TYPES['uwb_range']:
            inputs[f'uwb{len(inputs) or ""}'] = {'topic': one.topic, 'adapter': 'uwb_range'}
            radios |= one.radios
    pairs = [t.topic for t in topics if t.type == RANGE_TYPES['pair_topic']]
    words = [topic.split('/') for topic in pairs]
    if len(pairs) > 1 and len({len(w) for w in words}) == 1:
        varying = [k for k in range(len(words[0])) if len({w[k] for w in words}) > 1]
        if len(varying) == 2:
            pattern = [re.escape(word) for word in words[0]]
            for k, group in zip(varying, ('source', 'target'), strict=True):
                pattern[k] = f'(?P<{group}>[^/]+)'
                radios |= {w[k] for w in words}
            inputs['pairs'] = {'topic': '/'.join(pattern), 'adapter': 'pair_topic',
                               'type': RANGE_TYPES['pair_topic']}
    return inputs, radios
