"""Ranges whose radios stand in the topic name: `sensor_msgs/Range`, `std_msgs/Float64` …"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from ...config.inputs_config import RangeInput, radio_name
from ..decode import RangeSample, Refused, Sample, stamp

NAN = float('nan')


class PairTopic:
    """One topic per pair of radios; the regular expression of the input names them."""

    def __init__(self, source: str, target: str, options: RangeInput) -> None:
        template = options.radio_format or '{id}'
        self._source = radio_name(options.source_format or template, source)
        self._target = radio_name(options.target_format or template, target)
        self._scale = options.scale

    def __call__(self, msg: Any, received_ns: int) -> Iterator[Sample]:
        """One range; a message without header gets stamp 0 (= by reception)."""
        value = getattr(msg, 'range', None)
        if value is None:
            value = getattr(msg, 'data', None)
        if value is None:
            yield Refused('ranges', 'unreadable')
            return
        header = getattr(msg, 'header', None)
        limit = float(getattr(msg, 'max_range', 0.0))
        # sensor_msgs/Range: beyond max_range means nothing was measured; 0 = limits not filled.
        if math.isfinite(limit) and limit > 0 and float(value) > limit:
            yield Refused('ranges', 'beyond_sensor')
            return
        # The field exists from ROS Iron on; 0 = unknown.
        variance = float(getattr(msg, 'variance', 0.0)) * self._scale**2
        yield RangeSample(
            self._source, self._target, stamp(header.stamp) if header is not None else 0,
            received_ns, float(value) * self._scale, variance)
