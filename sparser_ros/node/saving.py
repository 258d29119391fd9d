"""Maps as folders: what `~/save` writes, and what `node.map_file` reads."""

from __future__ import annotations

import dataclasses
import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from ..array_types import Array
from ..backend.session.solution import Fix, Solution, covariance_fields
from ..config import ConfigError, FormatError, SparserError
from ..config.sparser import SparserConfig
from ..frontend import track
from ..frontend.track import RecordedOdometry
from ..graph import Estimate, Graph, with_estimate
from ..graph.parts import listed
from ..io import atomic, beacon_file, pyfg, report, tum
from ..io.beacon_file import SavedBeacon

T = TypeVar('T')
MOST_LISTED = 20
"""Names of maps, or of what a map lacks, in one answer."""


def apart(work: Callable[..., T], *arguments: Any) -> T:
    """What a function of this package returns or raises, called in a process of its own: reading
    and writing large maps holds the interpreter."""
    with ProcessPoolExecutor(1, mp_context=get_context('spawn')) as pool:
        try:
            return pool.submit(work, *arguments).result()
        except BrokenProcessPool:
            raise SparserError(
                'the process that did it was killed before the end; was there too little '
                'memory?') from None


def save(config: SparserConfig, graph: Graph, solution: Solution, name: str,
         odometry: Mapping[str, RecordedOdometry]) -> Path:
    """Write a new folder below `node.save_directory`, whole or not at all; its absolute path.

    Its name is that of the time of day, or the one given, if any; SparserError where that is taken.

    `graph` is the sum of the increments up to `solution.sequence`. The folder holds `map.pyfg`
    and `map.json`, `<robot>.tum` of every robot that has a pose in `map` (the first line says of
    one that is not located), `odometry_rate/<robot>.tum` of those whose `odometry` is given,
    `beacons.yaml`, `beacons.csv` and, where they are known, the covariances of newest poses and
    landmarks, `covariances.json`, and what the calibration of radios has found, `radios.yaml`.
    """
    if graph.n_poses != len(solution.estimate.translation):
        raise SparserError(
            f'the solution has {len(solution.estimate.translation)} poses, its graph '
            f'{graph.n_poses}: save again after the next solution')
    directory = _directory(config)
    target = _unused(directory / time.strftime('map_%Y%m%d_%H%M%S'))
    if name:
        target = directory / name
        if target.exists():
            raise SparserError(f'{target} exists already: choose another name')
    with atomic.replacing(target) as folder:
        folder.mkdir(parents=True)
        pyfg.write(folder / 'map.pyfg', with_estimate(graph, solution.estimate))
        fixes = solution.fixes
        part, estimate = _restricted(graph, solution.estimate, [
            robot for robot, fix in fixes.items() if fix is not Fix.NONE])
        remarks = {state.robot: state.remark for state in solution.robots
                   if fixes[state.robot] is Fix.FLOAT}
        tum.write(folder, part, estimate, part.poses.stamp_ns, remarks)
        track.write(folder, part, estimate, odometry, remarks)
        if solution.covariances is not None:
            report.write(
                folder / 'covariances.json', covariance_fields(graph, solution.covariances))
        beacons, known = saved_beacons(config, graph, solution)
        beacon_file.write(folder, beacons)
        radios = found_radios(config, graph, solution)
        if radios:
            atomic.write_parameters(folder / 'radios.yaml', {'radios': radios})
        atomic.write_text(folder / 'map.json', json.dumps({
            'frame': config.frames.map, 'newest_stamp_ns': solution.newest_stamp_ns,
            'epoch': solution.epoch, 'robots': {
                r.robot: r.location.value for r in solution.robots},
            'beacon_covariances': 'estimated' if known else 'bound of observability'}, indent=1))
    return target


def check_name(name: str) -> None:
    """SparserError unless a name is that of a folder directly below `node.save_directory`."""
    if not re.fullmatch(r'[A-Za-z0-9_][A-Za-z0-9_. -]{0,99}', name) or name.endswith(('.', ' ')):
        raise SparserError(
            f'{name!r} is no name for a map: letters, digits, and _ - . or space within, at most '
            '100 of them; the folder is made below node.save_directory')


def find(config: SparserConfig, name: str) -> Path:
    """The map of that name below `node.save_directory`, or at the path.

    FormatError, which lists the maps that there are, where there is neither.
    """
    directory = _directory(config)
    try:
        for path in (directory / name, Path(name).expanduser().absolute()) if name else ():
            if path.exists():
                return path
        maps = sorted((path.parent for path in directory.glob(f'*/{beacon_file.NAME}')),
                      key=lambda folder: folder.stat().st_mtime, reverse=True)
    except (OSError, ValueError, RuntimeError) as error:  # RuntimeError: ~ of nobody
        raise FormatError(name, None, f'no name of a map: {error}') from None
    raise FormatError(
        name or 'no name', None, 'cannot be read: no such map; '
        f'in {directory} there are: {listed([path.name for path in maps], MOST_LISTED) or "none"}')


def missing(solution: Solution, beacons: Sequence[str]) -> list[str]:
    """What a map of this solution does not hold, in words; `beacons` are those of its graph."""
    fixes = solution.fixes
    lacks = [('no trajectory' if fixes[state.robot] is Fix.NONE else 'only an uncertain trajectory')
             + f' of {state.robot}, which is {state.location.value}'
             + (f' ({state.missing})' if state.missing else '')
             for state in solution.robots if fixes[state.robot] is not Fix.FIXED]
    located = solution.landmark_located
    unknown = [name for name, known in zip(beacons, located, strict=False) if not known]
    if not np.any(located):
        lacks.append('no beacon is located, so that no node can start in this map')
    elif unknown:
        lacks.append(f'{len(unknown)} of {len(located)} beacons are not located: '
                     f'{listed(unknown, MOST_LISTED)}')
    return lacks


def _directory(config: SparserConfig) -> Path:
    return Path(config.node.save_directory).expanduser().absolute()


def saved_beacons(
    config: SparserConfig, graph: Graph, solution: Solution
) -> tuple[list[SavedBeacon], bool]:
    """The located beacons, and whether the solution knows the covariances of all of them.

    They are relative to each other unless known positions fix the frame: in a map that begins with
    these beacons they are what defines it, and where the first robot stood is nobody's concern.
    One that it does not know counts as just located.
    """
    rows = np.flatnonzero(solution.landmark_located)
    bound = config.backend.observability.position_sigma_m**2 * np.eye(graph.dimension)
    covariances: Array = np.tile(bound, (len(rows), 1, 1))
    known = np.zeros(len(rows), dtype=bool)
    if solution.covariances is not None:
        estimated = solution.covariances.landmarks[rows]
        known = np.all(np.isfinite(estimated), axis=(1, 2))
        covariances[known] = estimated[known]
    return [
        SavedBeacon(graph.landmarks.names[row], tuple(solution.estimate.landmarks[row].tolist()),
                    covariance)
        for row, covariance in zip(rows, covariances, strict=True)], bool(np.all(known))


def found_radios(
    config: SparserConfig, graph: Graph, solution: Solution
) -> dict[str, dict[str, Any]]:
    """The configured radios with what the live calibration has found on top.

    That is biases and places of antennas; {} where it has found nothing.
    """
    # The calibration takes 0.1 s to load, which the node need not wait for.
    from ..backend.calibrate.results import corrected_radios
    from ..backend.integrity.hypotheses import ALL_RADIOS
    from ..backend.integrity.radio_errors import BIAS
    from ..backend.session.audited_map import antennas_of

    bias = {
        finding.subject: finding.value for finding in solution.findings if finding.kind == BIAS}
    if ALL_RADIOS in bias:
        common = bias.pop(ALL_RADIOS)
        bias = {name: bias.get(name, common) for name in (*graph.robots, *graph.landmarks.names)}
    moved = antennas_of(solution.findings, graph.dimension)
    return corrected_radios(config, graph.robots, bias, moved, {}) if bias or moved else {}


def with_beacons(config: SparserConfig, path: Path | str) -> SparserConfig:
    """The configuration with the beacons of a saved map, configured positions stay; FormatError
    where there is none, and where its names are those of robots or of other radios."""
    saved = beacon_file.read(path, config.dimension)
    try:
        return dataclasses.replace(config, radios=merged_radios(config.radios, saved))
    except ConfigError as error:
        raise FormatError(path, None, f'does not fit the parameters: {error}') from None


def found_map(config: SparserConfig, name: str) -> tuple[Path, SparserConfig]:
    """The map of a name, and the configuration with its beacons."""
    path = find(config, name)
    return path, with_beacons(config, path)


def merged_radios(
    radios: Mapping[str, Mapping[str, Any]], saved: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Radios of a configuration with the positions of saved beacons, matched by beacon.

    ConfigError where a beacon has the name of the radio of something else.
    """
    result = {name: dict(radio) for name, radio in radios.items()}
    radios_of: dict[Any, list[dict[str, Any]]] = {}
    for entry in result.values():
        radios_of.setdefault(entry.get('beacon'), []).append(entry)
    for name, radio in saved.items():
        beacon = str(radio.get('beacon', name))
        own = radios_of.get(beacon, [])
        if not own:
            if name in radios:
                owner = radios[name].get('robot') or radios[name].get('beacon')
                raise ConfigError(f'radios.{name} is a radio of {owner}, not beacon {beacon}')
            result[name] = {'beacon': beacon, 'position': radio['position'],
                            'sigma_m': radio.get('sigma_m', 0.0)}
        for entry in own:
            if not entry.get('position'):
                entry.update(position=radio['position'], sigma_m=radio.get('sigma_m', 0.0))
    return result


def _unused(path: Path) -> Path:
    number, candidate = 1, path
    while candidate.exists():
        number += 1
        candidate = path.with_name(f'{path.name}_{number}')
    return candidate


def _restricted(
    graph: Graph, estimate: Estimate, robots: list[str]
) -> tuple[Graph, Estimate]:
    """Poses of the given robots only; measurements stay behind."""
    keep = np.isin(graph.poses.robot, [graph.robots.index(name) for name in robots])
    part = graph.replaced(poses=graph.poses.take(keep))
    return part, Estimate(
        estimate.rotation[keep], estimate.translation[keep], estimate.landmarks)
