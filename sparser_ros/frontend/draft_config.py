"""A configuration drafted from the topics of a bag: robots, radios and inputs by their names."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any

from ..config.inputs_config import CLOSURE_TYPES, RANGE_TYPES
from ..io.bag_survey import TopicSurvey
from .topic_check import ODOMETRY_TYPE

TRUTH = re.compile(r'truth|mocap|vrpn|optitrack|vicon|(?:^|[/_])gt(?:[/_]|$)', re.IGNORECASE)
"""Topics of a reference, which must not count as odometry."""


def draft(topics: Sequence[TopicSurvey]) -> tuple[dict[str, Any], list[str]]:
    """Parameters, and what a reader has to check or add, in words."""
    notes: list[str] = []
    odometry = {t.topic: t.count for t in topics
                if t.type == ODOMETRY_TYPE and t.count and not TRUTH.search(t.topic)}
    config: dict[str, Any] = {'dimension': 2}
    template, robots = _robots(odometry)
    if robots:
        config |= {'robots': robots, 'odometry': {'topic': template}}
    else:
        notes.append(f'no topic of {ODOMETRY_TYPE}: a solve needs the odometry of every robot')
    inputs, radios = _ranges(topics)
    if inputs:
        config['ranges'] = {'inputs': inputs}
    else:
        notes.append('no topic of ranges that is known by its type: see ranges.inputs, adapter '
                     'fields')
    strangers = sorted(radios - set(robots))
    if strangers:
        config['radios'] = {name: {'beacon': name} for name in strangers}
        notes.append(
            f'{len(strangers)} radios are drafted as beacons of unknown position: '
            f'{", ".join(strangers)}. Those that a robot carries need `robot: NAME` instead')
    if not any(t.type in CLOSURE_TYPES.values() for t in topics):
        notes.append('no loop closures: robots are tied by ranges alone')
    truth = {r: t.topic for r in robots for t in topics
             if t.type == ODOMETRY_TYPE and TRUTH.search(t.topic) and r in t.topic.split('/')}
    if truth:
        config['backend'] = {'truth_topics': truth}
    config['solver'] = {'robust': {'kernel': 'gm', 'gnc': True}}
    return config, notes


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
