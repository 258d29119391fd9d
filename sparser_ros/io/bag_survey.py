"""Survey of a bag, topic by topic: rates, gaps, frames, radios and the size of their ranges."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..config import FormatError
from .bag import IMU, ODOMETRY, BagReader

MOST_DECODED = 4000
"""Messages of a topic that are decoded, spread over the bag: names, sizes and tracks show in
fewer."""
GAP_PERIODS = 5.0
"""A pause of so many median periods counts as a gap."""
LEVEL = 1e-6
"""Half an angle, rad: odometry that begins so nearly upright began at the identity."""


@dataclass
class TopicSurvey:
    """One topic of a bag."""

    topic: str
    type: str
    count: int = 0
    rate_hz: float = 0.0
    longest_gap_s: float = 0.0
    gaps: int = 0
    """Pauses of more than GAP_PERIODS median periods."""
    unstamped: int = 0
    """Decoded messages whose header has stamp 0."""
    radios: set[str] = field(default_factory=set)
    """Names in the fields `source` and `target`."""
    ranges_m: list[float] = field(default_factory=list)
    """Values of the field `range`, in the unit of the message."""
    range_pairs: list[tuple[str, str]] = field(default_factory=list)
    """Both ends of each of them; empty names where the message has none."""
    range_stamps_s: list[float] = field(default_factory=list)
    """Their reception, seconds of bag time."""
    beam: bool = False
    """It measures along a beam: a sonar or laser, and no radio. Its values are not taken."""
    track: list[tuple[float, float, float, float]] = field(default_factory=list)
    """(reception in seconds of bag time, x, y, z) of odometry."""
    begins_upright: bool = False
    """The z axis of the body in the first of them is exactly that of the odometry's frame."""
    attitudes: int = 0
    """Decoded messages of an IMU that state an orientation."""
    frames: tuple[str, str] = ('', '')
    """Frame and child frame of the last of them."""


def survey(path: Path | str, faults: list[str] | None = None) -> list[TopicSurvey]:
    """All topics of a bag by name; `faults` gets what of it cannot be read, in words.

    FormatError when nothing can be read.
    """
    bag = BagReader(path)
    unreadable: dict[str, str] = {}
    surveys = {topic: TopicSurvey(topic, kind) for topic, kind in sorted(bag.topics.items())}
    stamps: dict[str, list[int]] = {topic: [] for topic in surveys}
    for message in bag.messages():
        topic_survey = surveys[message.topic]
        stamps[message.topic].append(message.bag_time_ns)
        # The number that a bag states may be wrong, and zero.
        stride = max(1, -(-bag.counts[message.topic] // MOST_DECODED))
        if len(stamps[message.topic]) % stride == 0 and message.msgtype in bag.store.fielddefs:
            try:
                msg = message.msg
            except FormatError as error:
                unreadable.setdefault(message.topic, f'some messages cannot be read: {error}')
                continue
            _look(topic_survey, msg, (message.bag_time_ns - bag.start_ns) * 1e-9)
    for topic, topic_survey in surveys.items():
        _time(topic_survey, np.array(stamps[topic], dtype=np.int64))
    if faults is not None:
        faults += [*bag.faults, *unreadable.values()]
    return list(surveys.values())


def _look(topic_survey: TopicSurvey, msg: Any, seconds: float) -> None:
    stamp = getattr(getattr(msg, 'header', None), 'stamp', None)
    if stamp is not None and stamp.sec == 0 and stamp.nanosec == 0:
        topic_survey.unstamped += 1
    value = getattr(msg, 'range', None)
    # Radios hear all around, where their driver fills that in at all.
    topic_survey.beam |= 0.0 < getattr(msg, 'field_of_view', 0.0) < math.pi
    if isinstance(value, (int, float)) and not topic_survey.beam:
        pair = (str(getattr(msg, 'source', '')), str(getattr(msg, 'target', '')))
        topic_survey.ranges_m.append(float(value))
        topic_survey.range_pairs.append(pair)
        topic_survey.range_stamps_s.append(seconds)
        topic_survey.radios |= {name for name in pair if name}
    if topic_survey.type == IMU:
        turn = msg.orientation
        topic_survey.attitudes += bool(msg.orientation_covariance[0] >= 0 and abs(
            turn.x**2 + turn.y**2 + turn.z**2 + turn.w**2 - 1) < 0.1)
    if topic_survey.type == ODOMETRY:
        place, turn = msg.pose.pose.position, msg.pose.pose.orientation
        pose = seconds, float(place.x), float(place.y), float(place.z)
        if np.all(np.isfinite(pose)):
            if not topic_survey.track:
                topic_survey.begins_upright = bool(np.hypot(turn.x, turn.y) < LEVEL)
            topic_survey.track.append(pose)
            topic_survey.frames = str(msg.header.frame_id), str(msg.child_frame_id)


def _time(topic_survey: TopicSurvey, stamps: Any) -> None:
    topic_survey.count = len(stamps)
    if topic_survey.count < 2:
        return
    periods = np.diff(np.sort(stamps)) * 1e-9
    topic_survey.rate_hz = float((topic_survey.count - 1) / max(periods.sum(), 1e-9))
    topic_survey.longest_gap_s = float(periods.max())
    topic_survey.gaps = int(np.sum(periods > GAP_PERIODS * max(float(np.median(periods)), 1e-3)))
