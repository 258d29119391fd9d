"""A configuration drafted from a bag: inputs by types and names of topics, the dimension by the
motion, who carries which radio by names and motion. Numbers stay at their defaults; what a reader
has to check or add is said in words."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from os.path import commonprefix
from typing import Any

import numpy as np
from scipy.optimize import least_squares

from ..array_types import Array
from ..config.frontend_config import FramesConfig, RangesConfig
from ..config.inputs_config import CLOSURE_TYPES, RANGE_TYPES, SIGHTING_TYPES
from ..io.bag_survey import TopicSurvey
from .inputs import IMU_TYPE, ODOMETRY_TYPE
from .ranges import UnitCheck

TRUTH = re.compile(r'truth|mocap|vrpn|optitrack|vicon|(?:^|[/_])gt(?:[/_]|$)', re.IGNORECASE)
"""Topics of a reference, which must not count as odometry."""
TRUTH_TYPES = (
    ODOMETRY_TYPE, 'geometry_msgs/msg/PoseStamped', 'geometry_msgs/msg/PoseWithCovarianceStamped',
    'geometry_msgs/msg/TransformStamped')
"""What `sparser replay` compares robots with."""
PX4_ODOMETRY = 'px4_msgs/msg/VehicleOdometry'
ALTIMETER = re.compile(r'alti|height|range_?finder|down|ground|rel_alt|agl', re.IGNORECASE)
"""Topics of altimeters where the type alone does not tell."""
ALTIMETERS: dict[str, tuple[bool, dict[str, Any]]] = {
    'sensor_msgs/msg/Range': (True, {'measures': 'ground'}),
    'px4_msgs/msg/DistanceSensor': (False, {'field': 'current_distance', 'measures': 'ground'}),
    'geometry_msgs/msg/PointStamped': (True, {}),
    'std_msgs/msg/Float64': (True, {}),
    'mavros_msgs/msg/Altitude': (False, {'field': 'relative'}),
    'px4_msgs/msg/VehicleLocalPosition': (False, {'field': 'z', 'scale': -1.0}),
    'sensor_msgs/msg/FluidPressure': (False, {
        'measures': 'pressure', 'sigma_m_per_sqrt_s': 0.05}),
}
"""Whether the name must say so, and the entry of heights.inputs; the best first. Autopilots have
their laser and barometer in their height, so that one of them is drafted."""
CLIMB_M, CLIMB_SHARE = 0.3, 0.03
"""A robot that climbs by both, the share of its way across, moves in space: flights do, floors and
gentle slopes do not."""


def draft(topics: Sequence[TopicSurvey]) -> tuple[dict[str, Any], list[str]]:
    """Parameters, and in words what was decided and what a reader has to check or add."""
    surveys = {t.topic: t for t in topics}
    odometry = {t.topic: t.count for t in topics if _is_odometry(t) and t.count}
    template, robots = _robots(odometry)
    driven = {robot: surveys[template.replace('{robot}', robot)] for robot in robots}
    notes: list[str] = []
    left = sorted(odometry.keys() - {survey.topic for survey in driven.values()})
    if left:
        notes.append(
            f'question: odometry that is not used: {", ".join(left)}. Where it is of further '
            'robots, play it on topics that differ from odometry.topic in {robot} alone, and add '
            'them to `robots`')
    dimension = _dimension(driven, notes)
    config: dict[str, Any] = {'dimension': dimension}
    inputs, radios, pairs = _ranges(topics, notes)
    unit = unit_check(topics)
    carried = carried_radios(
        {robot: np.array(survey.track).reshape(-1, 4)[:, :1 + dimension]
         for robot, survey in driven.items()},
        {pair: np.array(rows) * [1.0, unit.scale] for pair, rows in pairs.items()})
    if any(name != robot for name, robot in carried.robot.items()):
        # A robot that stands still looks like a beacon, and ranges cannot place it otherwise.
        still = [robot for robot in carried.standing if robot not in radios]
        robots = [robot for robot in robots if robot not in still]
        if still:
            notes.append(
                f'left out, since they stand still in this recording: {", ".join(still)}. Add '
                'each to `robots`, and its radio with `robot: NAME`, where it moves')
    if robots:
        config |= {'robots': robots, 'odometry': {'topic': template}}
        if dimension == 3:
            _levels(topics, driven, robots, config, notes)
        config |= _frames({robot: driven[robot].frames for robot in robots})
    else:
        notes.append(f'no topic of {ODOMETRY_TYPE}: a solve needs the odometry of every robot' + (
            f'. {PX4_ODOMETRY} has other axes: docs/flying.md says how to turn it'
            if any(t.type == PX4_ODOMETRY for t in topics) else ''))
    if inputs:
        config['ranges'] = _range_options(topics, inputs, unit, notes)
    else:
        notes.append('no topic of ranges that is known by its type: see ranges.inputs, adapter '
                     'fields')
    for group, name, types in (('sightings', 'landmarks', SIGHTING_TYPES),
                               ('closures', 'closures', CLOSURE_TYPES)):
        adapter, own = next(iter(types.items()))
        seen = [t.topic for t in topics if t.type == own and t.count]
        if seen:
            config[group] = {'inputs': {
                f'{name}{number or ""}': {'topic': topic, 'adapter': adapter}
                for number, topic in enumerate(seen)}}
    entries = _radios(carried, radios, robots, notes)
    if entries:
        config['radios'] = entries
    slam = [(t.topic, adapter) for t in topics for adapter, kind in CLOSURE_TYPES.items()
            if t.type == kind and adapter != 'loop_closure']
    notes += [f'{topic} has loop closures, which are not used: an entry of closures.inputs with '
              f'adapter: {adapter} reads them' for topic, adapter in slam]
    if not slam and 'closures' not in config:
        notes.append('no loop closures: robots are tied by ranges alone')
    truth = {robot: topic for robot in robots if (topic := _truth(topics, robot))}
    if truth:
        config['backend'] = {'truth_topics': truth}
    return config, notes


def _is_odometry(topic: TopicSurvey) -> bool:
    return topic.type == ODOMETRY_TYPE and not TRUTH.search(topic.topic)


def unit_check(topics: Sequence[TopicSurvey]) -> UnitCheck:
    """The unit of all ranges, judged by how they change with the way that robots travel."""
    ways = []
    for topic in topics:
        if _is_odometry(topic) and topic.track:
            track = np.array(topic.track)
            steps = np.linalg.norm(np.diff(track[:, 1:], axis=0), axis=1)
            ways.append((track[:, 0], np.concatenate([[0.0], np.cumsum(steps)])))
    check = UnitCheck()
    rows = sorted(
        (seconds, pair, value) for survey in topics for pair, seconds, value in zip(
            survey.range_pairs, survey.range_stamps_s, survey.ranges_m, strict=True)
        if 0 < value < np.inf)
    for seconds, pair, value in rows:
        # Which radio rides where is not known yet: each has travelled as far as robots on average.
        travelled = [float(np.interp(seconds, *way)) for way in ways]
        check.add(value, pair, float(np.mean(travelled)) if travelled else 0.0)
    return check


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
    # Letter by letter, but numbers stay whole: turtle01 and turtle03 are 01 and 03.
    head = commonprefix(chosen).rstrip('0123456789')  # noqa: RUF071
    reverse = commonprefix([topic[::-1] for topic in chosen])  # noqa: RUF071
    tail = reverse[::-1].lstrip('0123456789')
    # Names end at a word: those of alice and grace have more than their first letters.
    words = re.search(r'[^0-9A-Za-z]|$', tail)
    tail = tail[words.start() if words else 0:]
    if any(len(topic) <= len(head) + len(tail) for topic in chosen):
        head = head[:head.rindex('/') + 1]
    names = [topic[len(head):len(topic) - len(tail)] for topic in chosen]
    if not all(name.isdigit() for name in names):
        # They begin at a word as well: those of husky and hunter.
        short = re.sub('[0-9A-Za-z]*$', '', head)
        names, head = [head[len(short):] + name for name in names], short
    return f'{head}{{robot}}{tail}', names


def _dimension(driven: Mapping[str, TopicSurvey], notes: list[str]) -> int:
    """2 or 3, by the odometry of the robot that climbs most."""
    climbs = []
    for robot, survey in driven.items():
        if survey.track:
            # Percentiles: a spike of a tracking camera is no flight.
            low, high = np.percentile(np.array(survey.track)[:, 1:], [1, 99], axis=0)
            climbs.append((float(high[2] - low[2]), float(max((high - low)[:2])), robot))
    if not climbs:
        return 2
    climb, across, robot = max(climbs)
    space = climb > CLIMB_M and climb > CLIMB_SHARE * across
    notes.append(
        f'dimension {3 if space else 2}: {robot} climbs {climb:.2f} m on a way {across:.1f} m '
        f'across{", no other more" if len(climbs) > 1 else ""}. Set '
        + ('2 where that is drift of odometry or a slope' if space
           else '3 for robots that fly or climb'))
    return 3 if space else 2


def _levels(
    topics: Sequence[TopicSurvey], driven: Mapping[str, TopicSurvey], robots: Sequence[str],
    config: dict[str, Any], notes: list[str],
) -> None:
    """Add what says where up is and how high robots fly: `odometry`, `attitudes`, `heights`."""
    # By gravity nobody stands exactly upright at the start.
    if all(driven[robot].begins_upright for robot in robots):
        config['odometry']['vertical'] = 'free'
        notes.append(
            'question: all odometry begins exactly upright, as odometry without an IMU does: '
            'vertical: free. Set gravity where it knows the vertical')
        imus = _per_robot((t.topic for t in topics if t.type == IMU_TYPE and t.attitudes), robots)
        if imus:
            config['attitudes'] = {'topic': imus[0]}
            notes.append(f'{imus[0]} says roll and pitch there: attitudes.mounts, where the axes '
                         'of the IMU are not those of the robot')
    heights = [(kind, topic) for kind, (named, _) in ALTIMETERS.items() for topic in _per_robot((
        t.topic for t in topics if t.type == kind and t.count and not TRUTH.search(t.topic)
        and (ALTIMETER.search(t.topic) or not named)), robots)]
    if heights:
        (kind, topic), *others = heights
        config['heights'] = {'inputs': {'altimeter': {
            'topic': topic, 'type': kind, **ALTIMETERS[kind][1]}}}
        notes.append(
            f'heights by {topic}: give its sigma_m, and its place as lever_arm' + (
                f'; left out, as it may have the same errors: '
                f'{", ".join(topic for _, topic in others)}' if others else ''))
    else:
        notes.append('no topic of heights is known by its type: with a laser or barometer '
                     '(heights.inputs) robots that fly are located far sooner')


def _per_robot(topics: Iterable[str], robots: Sequence[str]) -> list[str]:
    """Topics with {robot} in place of the name, each once; as they are for a single robot."""
    templates = [_templated(topic, robot) for topic in topics for robot in robots
                 if len(robots) == 1 or _templated(topic, robot) != topic]
    return list(dict.fromkeys(templates))


def _frames(frames: Mapping[str, tuple[str, str]]) -> dict[str, Any]:
    """`frames` as the messages of odometry name them, where all robots name them alike."""
    default = FramesConfig()
    templates = {tuple(_templated(frame.lstrip('/'), robot) for frame in both)
                 for robot, both in frames.items()}
    odom, base = templates.pop() if len(templates) == 1 else ('', '')
    if not odom or not base or (odom, base) == (default.odom, default.base) or (
            len(frames) > 1 and not ('{robot}' in odom and '{robot}' in base)):
        return {}
    return {'frames': {'odom': odom, 'base': base}}


def _templated(frame: str, robot: str) -> str:
    """A frame with {robot} in place of a robot's name, where that is a word of its own: 01 is one
    in turtle01/odom, but A not in Alpha/odom."""
    word = '0-9' if robot.isdigit() else '0-9A-Za-z'
    return re.sub(f'(?<![{word}]){re.escape(robot)}(?![{word}])', '{robot}', frame)


def _truth(topics: Sequence[TopicSurvey], robot: str) -> str:
    """The topic of a robot's reference, by its name or number; '' = none."""
    for survey in topics:
        if survey.type not in TRUTH_TYPES or not survey.count or not TRUTH.search(survey.topic):
            continue
        numbers = {int(text) for text in re.findall(r'\d+', survey.topic)}
        if robot in survey.topic.split('/') or (robot.isdigit() and int(robot) in numbers):
            return survey.topic
    return ''


def _ranges(topics: Sequence[TopicSurvey], notes: list[str]) -> tuple[
        dict[str, Any], set[str], dict[tuple[str, str], list[tuple[float, float]]]]:
    """Entries of ranges.inputs, the names of radios, seconds and ranges by pair of them."""
    inputs: dict[str, Any] = {}
    radios: set[str] = set()
    pairs: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    ends: dict[str, tuple[str, str]] = {}
    beams = [t.topic for t in topics if t.beam and not ALTIMETER.search(t.topic)]
    if beams:
        notes.append(f'not used: {", ".join(beams)}, whose field_of_view says that they are sonars '
                     'or lasers. Ranges of radios need an entry of ranges.inputs')
    words = {t.topic: t.topic.split('/') for t in topics
             if t.type == RANGE_TYPES['pair_topic'] and not (t.beam or ALTIMETER.search(t.topic))}
    columns = [set(column) for column in zip(*words.values(), strict=False)]
    varying = [k for k, column in enumerate(columns) if len(column) > 1]
    if len(varying) == 2 and {len(w) for w in words.values()} == {len(columns)}:
        source, target = varying
        ends = {topic: (w[source], w[target]) for topic, w in words.items()}
        radios |= columns[source] | columns[target]
        pattern = [re.escape(word) for word in next(iter(words.values()))]
        pattern[source], pattern[target] = '(?P<source>[^/]+)', '(?P<target>[^/]+)'
    for survey in topics:
        if survey.type == RANGE_TYPES['uwb_range']:
            inputs[f'uwb{len(inputs) or ""}'] = {'topic': survey.topic, 'adapter': 'uwb_range'}
            radios |= survey.radios
        for pair, *row in zip(
                survey.range_pairs, survey.range_stamps_s, survey.ranges_m, strict=True):
            pair = ends.get(survey.topic, pair)
            if all(pair):
                pairs[pair].append((row[0], row[1]))
    if ends:
        inputs['pairs'] = {'topic': '/'.join(pattern), 'adapter': 'pair_topic',
                           'type': RANGE_TYPES['pair_topic']}
    return inputs, radios, pairs


def _range_options(
    topics: Sequence[TopicSurvey], inputs: dict[str, Any], unit: UnitCheck, notes: list[str]
) -> dict[str, Any]:
    """`ranges` of the configuration: inputs with their unit, and how far radios reach."""
    if unit.scale != 1.0:
        inputs = {name: options | {'scale': unit.scale} for name, options in inputs.items()}
        notes += [f'scale {unit.scale:g}: {finding.text}' for finding in unit.findings()]
    options: dict[str, Any] = {'inputs': inputs}
    values = [value for survey in topics for value in survey.ranges_m if 0 < value < np.inf]
    reach = float(np.percentile(values, 99)) * unit.scale if values else 0.0
    if reach > RangesConfig().max_m / 2 and not (unit.findings() and unit.scale == 1.0):
        options['max_m'] = float(f'{2 * reach:.2g}')
        notes.append(f'ranges reach {reach:.0f} m: longer ones than max_m are refused')
    return options


def _radios(
    carried: Carried, radios: set[str], robots: Sequence[str], notes: list[str]
) -> dict[str, dict[str, str]]:
    """`radios` of the configuration (one of a robot's name is that robot's without an entry);
    notes on decisions ask where they are doubtful."""
    entries = {}
    for name in sorted(radios):
        robot = carried.robot.get(name)
        if robot is not None:
            if robot != name:
                entries[name] = {'robot': robot}
        elif name not in robots:
            entries[name] = {'beacon': name}
        elif name not in carried.standing:
            entries[name] = {'beacon': f'beacon_{name}'}
            notes.append(
                f'question: radio {name} bears the name of robot {name}, but its ranges do not '
                'follow that robot: is it another one? If not, delete its entry in `radios`')
    sure = [f'{radio} rides on {robot}' for radio, robot in sorted(carried.robot.items())
            if radio not in carried.doubtful]
    if sure:
        notes.append(
            f'{", ".join(sure)}, by names and motion. A lever_arm [x, y, z] of the antenna on its '
            'robot makes ranges exact')
    for radio, others in carried.doubtful.items():
        drafted = f'rides on {carried.robot[radio]}' if radio in carried.robot else 'stands still'
        maybe = ' or '.join(f'ride on {robot}' if robot else 'stand still'
                           for robot in sorted(others))
        notes.append(
            f'question: {radio} {drafted} in this draft, but names and motion do not settle it: '
            f'it may {maybe}. Give it `robot: NAME` or `beacon: NAME`, as it is mounted')
    beacons = [name for name, entry in entries.items() if 'beacon' in entry]
    if beacons:
        notes.append(
            f'{len(beacons)} radios are drafted as beacons of unknown position: '
            f'{", ".join(beacons)}. Those that a robot carries need `robot: NAME` instead; '
            'surveyed ones a `position: [x, y, z]`')
    without = [robot for robot in robots if robot not in {*carried.robot.values(), *radios}]
    if without and entries:
        notes.append(
            f'question: which radio rides on {", ".join(without)}? None was found; without one '
            'no range ties it to the others')
    return entries


# -- which robot carries which radio ---------------------------------------------------------------

MOVED_M = 1.0
"""Extent of a track from which ranges tell its robot: several times the noise of UWB ranges."""
FITTED, LEAST_RANGES, STARTS = 60, 15, 12
"""Ranges of a pair that are fitted, spread over the bag, and at least; a fit has at most four
unknowns, and few minima over the circle of directions from which it starts."""
FLOOR_M = 0.1
"""Noise of a good UWB range: smaller residuals do not speak for a hypothesis."""
MOST_LEFT = 0.5
"""Share of the deviations from a constant that a fit may leave: more is the other end's motion."""
MARGIN = 10.0
"""Log-likelihood by which something must be better: odds of e^10, about 20 000 to 1."""
OF_ITS_NUMBER, WORD, MEASURES = 3 * MARGIN, 1.5 * MARGIN, 0.5
"""Evidence of a name that is the number of a robot (radios and robots may both be counted from 1);
of a word in it; of measuring (tags mostly do, anchors answer)."""
STANDING_WORDS = frozenset({'anchor', 'anc', 'beacon', 'base', 'basestation', 'landmark', 'fixed'})
RIDING_WORDS = frozenset({'tag', 'rover', 'mobile', 'robot', 'uav', 'ugv', 'drone', 'turtlebot'})


@dataclass(frozen=True)
class Carried:
    """Assignment of radios to robots, with the doubtful ones."""

    robot: dict[str, str] = field(default_factory=dict)
    """Radio -> moving robot that most likely carries it."""
    doubtful: dict[str, set[str]] = field(default_factory=dict)
    """Radio -> what may be as well: robots that may carry it, '' = it may stand still."""
    standing: tuple[str, ...] = ()
    """Robots that moved by less than MOVED_M: their radios look like beacons."""


def carried_radios(tracks: Mapping[str, Array], ranges: Mapping[tuple[str, str], Array]) -> Carried:
    """Assign radios to robots: by names, by the motion of robots, by the ranges.

    A range between a radio on a moving robot and one that stands follows from the odometry of that
    robot and one unknown point: r(t) = |p(t) - b| + a, with the delay a of both antennas. By how
    much that explains the ranges of a pair better than a constant speaks for either of its ends as
    the one that rides. A radio on a robot collects this from all radios that stand, and those each
    only from it: the radio with the most evidence for any robot rides there, its ranges are
    explained, and the next one is looked for in the rest. Radios on two moving robots say little by
    their common ranges.

    `tracks`: robot -> (n, 1 + d) of seconds and position in the frame of its odometry, d = 2 or 3.
    `ranges`: (radio that measured, other radio) -> (m, 2) of seconds and metres. Robots that stand
    still cannot be told from beacons.
    """
    moving = [robot for robot, track in tracks.items() if len(track)
              and np.linalg.norm(np.ptp(track[:, 1:], axis=0)) >= MOVED_M]
    pairs = _both_ways(ranges)
    radios = sorted({name for pair in pairs for name in pair})
    # A number may be that of a robot by chance, another name not.
    sure = {name for name in radios if name in tracks and not name.isdigit()}
    carried = Carried(
        {name: name for name in sorted(sure) if name in moving},
        standing=tuple(robot for robot in tracks if robot not in moving))
    gain = {pair: _gains(values, [
        tracks[robot] if all(carried.robot.get(end, robot) == robot for end in pair) else None
        for robot in moving]) for pair, values in pairs.items()}
    candidates = [radio for radio in radios if radio not in sure]
    prior = {radio: _by_name(radio, tracks, moving)
             + MEASURES * any(first == radio for first, _ in ranges) for radio in candidates}
    while True:
        evidence: dict[tuple[str, str], float] = {}
        for radio in candidates:
            by_motion = sum((values for pair, values in gain.items() if radio in pair and not any(
                end in carried.robot for end in pair)), np.zeros(len(moving)))
            both = by_motion + prior[radio]
            evidence |= {(radio, robot): float(both[k]) for k, robot in enumerate(moving)
                         if min(by_motion[k], both[k]) > MARGIN}
        if not evidence:
            return carried
        radio, robot = max(evidence, key=lambda key: evidence[key])
        near = [key for key, value in evidence.items()
                if value > evidence[radio, robot] - MARGIN and key != (radio, robot)]
        for other, on in near:
            if other == radio:
                carried.doubtful.setdefault(radio, set()).add(on)
            elif on == robot and (min(radio, other), max(radio, other)) in pairs:
                carried.doubtful.setdefault(radio, set()).add('')
                carried.doubtful.setdefault(other, set()).add(robot)
        carried.robot[radio] = robot
        candidates.remove(radio)


def _by_name(radio: str, robots: Collection[str], moving: Sequence[str]) -> Array:
    """Evidence of the name of a radio for each of the robots that move; 0 where it says nothing.

    Numbers alone count where they are the whole name: radio 1 of robot 1, but not n_1.
    """
    if radio in robots:
        return np.array([OF_ITS_NUMBER if robot == radio else -OF_ITS_NUMBER for robot in moving])
    parts = re.split(r'[^0-9a-z]+', radio.lower())
    words = {part.rstrip('0123456789') for part in parts}
    if words & STANDING_WORDS:
        return np.full(len(moving), -WORD)
    carriers = [robot for robot in robots if robot.lower() in parts and not robot.isdigit()]
    if len(carriers) == 1:
        return np.array([WORD if robot in carriers else -WORD for robot in moving])
    return np.full(len(moving), WORD if words & RIDING_WORDS else 0.0)


def _both_ways(ranges: Mapping[tuple[str, str], Array]) -> dict[tuple[str, str], Array]:
    """Both directions of a pair together, in order of time, for pairs with any range."""
    together: dict[tuple[str, str], list[Array]] = {}
    for (first, second), values in ranges.items():
        if first != second:
            together.setdefault((min(first, second), max(first, second)), []).append(values)
    merged = {}
    for pair, parts in together.items():
        values = np.concatenate(parts)
        values = values[np.isfinite(values[:, 1]) & (values[:, 1] > 0)]
        if len(values):
            merged[pair] = values[np.argsort(values[:, 0], kind='stable')]
    return merged


def _gains(values: Array, tracks: Sequence[Array | None]) -> Array:
    """Evidence of the ranges of a pair for each robot as the one that carries an end of it.

    What another robot explains far better speaks against one. Without a track: 0.
    """
    gain = np.array([0.0 if track is None else _gain(values, track) for track in tracks])
    most = gain.max(initial=0.0)
    return np.where(gain < most - MARGIN, gain - most, gain)


def _gain(values: Array, track: Array) -> float:
    """Log-likelihood of the ranges of a pair with one end on a robot, over that of a constant.

    Of the best |p(t) + x| + a over the point x and the delay a, from the two best of several
    starts, with Laplace noise of unknown size, which outliers hardly move.
    """
    spread = np.linspace(0, len(values) - 1, min(FITTED, len(values))).astype(int)
    seconds, distance = values[np.unique(spread)].T
    away = np.mean(np.abs(distance - np.median(distance)))
    if len(distance) < LEAST_RANGES:
        return 0.0
    at = np.column_stack([
        np.interp(seconds, track[:, 0], track[:, axis]) for axis in range(1, track.shape[1])])
    d = at.shape[1]

    def residual(x: Array) -> Any:
        return np.linalg.norm(at + x[:d], axis=1) + x[d] - distance

    starts = []
    for k in range(STARTS):
        angle = 2 * np.pi * k / STARTS
        way = np.array([np.cos(angle), np.sin(angle)])
        if d == 3:  # up and down in turn, for the plane of a track is a mirror
            way = np.array([*(way * np.sqrt(0.75)), 0.5 - k % 2])
        starts.append(np.array([*(np.median(distance) * way - at.mean(axis=0)), 0.0]))
    starts = sorted(starts, key=lambda x: float(np.sum(np.abs(residual(x)))))[:2]
    left = min(np.mean(np.abs(residual(least_squares(
        residual, start, loss='soft_l1', f_scale=FLOOR_M, max_nfev=40).x))) for start in starts)
    return float(len(distance) * np.log((away + FLOOR_M) / (left + FLOOR_M))) \
        if left < MOST_LEFT * away else 0.0
