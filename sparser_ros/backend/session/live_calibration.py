"""Radios calibrated beside the audits, one solve at a time: what is found becomes findings.

Each calibration begins with the ranges as they were measured, so what it finds replaces what the
last one has found.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ...graph.finding import Finding
from . import radio_biases
from .quarantine import FAILURES
from .solved_map import SolvedMap

if TYPE_CHECKING:
    from ...calibrate.self_calibration import SelfCalibration
    from ...config.sparser import SparserConfig

KIND = 'radio_bias'
"""Of findings whose value is the bias of a robot's or beacon's radio on top of the configured."""
_GROWTH = 1.5
"""Ranges of a calibration over those of the one before: the work then adds up to a constant share
of what solves of the whole graph cost."""


class LiveCalibration:
    """Calibrates the map of the last audit again and again."""

    def __init__(self) -> None:
        self.findings: tuple[Finding, ...] = ()
        """Of the last calibration that has ended."""
        self.biases: dict[str, float] = {}
        """What it would take off the ranges of radios, m, by robot or landmark."""
        self._steps: Iterator[SelfCalibration | None] | None = None
        self._ranges = 0

    def step(self, solved: SolvedMap | None, config: SparserConfig) -> bool:
        """One solve; False where there was nothing to do."""
        if not config.calibration.live:
            self.findings, self.biases, self._steps, self._ranges = (), {}, None, 0
            return False
        if self._steps is None:
            if solved is None or len(solved.graph.ranges) < max(1.0, _GROWTH * self._ranges):
                return False
            self._begin(solved, config)
        assert self._steps is not None
        try:
            found = next(self._steps)
        except FAILURES as error:
            self._steps = None
            self.findings = (Finding(
                'monitor_failed', 'radios', 'the radios could not be calibrated: '
                f'{type(error).__name__}: {error}'),)
            return True
        if found is not None:
            applied = config.calibration.mode == 'apply'
            self.findings, self.biases = findings_of(found, applied), biases_of(found)
            self._steps = None
        return True

    def _begin(self, solved: SolvedMap, config: SparserConfig) -> None:
        from ...calibrate.self_calibration import calibration_steps

        # A bias is one number per radio that people can set; a scale would change all of them.
        options = replace(config.calibration, scale_sigma=0.0)
        graph, biases = solved.graph, {name: -bias for name, bias in solved.biases.items()}
        measured = graph.replaced(ranges=radio_biases.without(biases, graph, graph.ranges))
        self._ranges = len(graph.ranges)
        self._steps = calibration_steps(measured, solved.estimate, options, config.solver)


def biases_of(found: SelfCalibration) -> dict[str, float]:
    """What a calibration takes off the ranges of radios, m; empty where it changes nothing."""
    if not found.applied:
        return {}
    return {name: bias for name, bias in zip(
        found.ends.names, found.parameters.bias_m.tolist(), strict=True) if bias}


def findings_of(found: SelfCalibration, applied: bool) -> tuple[Finding, ...]:
    """A finding for every radio whose bias is determined, significant and large enough."""
    if not found.applied:
        return ()
    from ...calibrate.radio_table import radio_rows

    bias = dict(zip(found.ends.names, found.parameters.bias_m.tolist(), strict=True))
    rows = [row for row in radio_rows(found)
            if row.determined and abs(bias[row.name]) > 3 * row.bias_sigma_m]
    order = np.argsort([-abs(bias[row.name]) for row in rows], kind='stable')
    return tuple(
        Finding(KIND, row.name,
                f'ranges of {row.name} are {abs(bias[row.name]):.2f} m too '
                f'{"long" if bias[row.name] > 0 else "short"} (sigma {row.bias_sigma_m:.2f} m): '
                + ('that is taken off' if applied else 'the bias_m of its radio is off by that'),
                bias[row.name], 'm')
        for row in (rows[k] for k in order))
