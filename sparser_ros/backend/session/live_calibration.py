"""Radios calibrated beside the audits, one solve at a time: what is found becomes findings.

Each calibration begins with the ranges as they were measured and the configured lever arms, so
what it finds replaces what the last one has found. Where antennas stand and how late stamps are is
looked at once biases are known; how late stamps are is only told.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from ...graph.finding import Finding
from ..integrity.radio_errors import RadioErrors
from .bound import SolvedMap
from .quarantine import FAILURES

if TYPE_CHECKING:
    from ...config.sparser import SparserConfig
    from ..calibrate.antennas_and_clocks import AntennasAndClocks
    from ..calibrate.self_calibration import SelfCalibration

_GROWTH = 1.5
"""Ranges of a calibration over those of the one before: the work then adds up to a constant share
of what solves of the whole graph cost."""


class LiveCalibration:
    """Calibrates the map of the last audit again and again."""

    def __init__(self) -> None:
        self.findings: tuple[Finding, ...] = ()
        """Of the last calibration that has ended."""
        self.errors = RadioErrors()
        """What it would take off the ranges of radios."""
        self._steps: Iterator[None] | None = None
        self._ranges = 0

    def step(self, solved: SolvedMap | None, config: SparserConfig) -> bool:
        """One solve; False where there was nothing to do."""
        if not config.calibration.live:
            self.findings, self.errors, self._steps, self._ranges = (), RadioErrors(), None, 0
            return False
        if self._steps is None:
            if solved is None or len(solved.graph.ranges) < max(1.0, _GROWTH * self._ranges):
                return False
            self._ranges = len(solved.graph.ranges)
            self._steps = self._calibration(solved, config)
        try:
            next(self._steps)
        except StopIteration:
            self._steps = None
        except FAILURES as error:
            self._steps = None
            self.findings = (Finding(
                'monitor_failed', 'radios', 'the radios could not be calibrated: '
                f'{type(error).__name__}: {error}'),)
        return True

    def _calibration(self, solved: SolvedMap, config: SparserConfig) -> Iterator[None]:
        """One calibration, solve by solve, with the options that hold when it begins."""
        from ..calibrate.antennas_and_clocks import calibration_with_places
        from .radio_findings import (
            antennas_of,
            bias_findings,
            biases_of,
            place_findings,
            significance,
        )

        # A bias is one number per radio that people can set; a scale would change all of them.
        options = replace(config.calibration, scale_sigma=0.0)
        measured = solved.radio_errors.put_back(solved.graph)
        sigmas = significance(options, measured)
        end: tuple[SelfCalibration, AntennasAndClocks] | None = None
        for end in calibration_with_places(
                measured, solved.estimate, options, config.solver, sigmas):
            if end is None:
                yield
        assert end is not None
        found, told = end
        applied = options.mode == 'apply'
        places = () if found.doubted else place_findings(
            told, sigmas, options.bias_floor_m, applied)
        self.findings = (*bias_findings(found, applied), *places)
        self.errors = RadioErrors(biases_of(found), antennas_of(places, measured.dimension))
