"""A study: bags x parameter sets x seeds, in processes of this machine or on a Dask cluster.

A YAML file says what is run:

    config: c.yaml                      # of every run; {bag} is the name of the bag. Without it
                                        # each bag has the draft of `sparser info BAG --config`
    sets:                               # named sets of parameters, and
      plain: {}
      robust: {solver.robust.kernel: gm}
    parameters:                         # the product of values, each with each set
      ranges.sigma_m: [0.1, 0.2]
    seeds: [0, 1]                       # of solver.seed; without them the configured one

The result of each run is a file that appears whole, so a study that was killed goes on where it
was when it is started again.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import product
from multiprocessing import active_children, get_context
from pathlib import Path
from typing import Any, TypeVar

from ...config import ConfigError, FormatError, SparserConfig, SparserError
from ...config.option import merged, nested
from ...config.sparser import load_yaml
from ...config.yaml_file import YamlFile
from ...frontend.draft_config import draft
from ...io import report
from ...io.bag_survey import survey
from ...solver.result import SolveStatus
from . import replay

GRID = {'config': str, 'sets': dict, 'parameters': dict, 'seeds': list}
"""Keys of the file."""
PARENT_CHECK_S = 1.0
"""Period at which a process looks whether the study that started it has been killed."""
A = TypeVar('A')
R = TypeVar('R')
Progress = Callable[[int, int, dict[str, Any] | None], None]
"""Called with runs done, runs in all and the newest row, None at the start."""


@dataclass(frozen=True)
class StudyRun:
    bag: str
    config: str
    """Parameter file, '' = drafted from the bag."""
    set: str
    seed: int | None
    """None: that of the parameters."""
    parameters: Mapping[str, Any]
    """Dotted names and values that differ from the file."""

    @property
    def name(self) -> str:
        return name_of(Path(self.bag))

    @cached_property
    def key(self) -> str:
        """Name of the result: changes with the parameters, their file and the bag, as they are
        when it is first asked for."""
        bag = Path(self.bag)
        files = [Path(self.config or '.'), *(sorted(bag.iterdir()) if bag.is_dir() else [bag])]
        stamp = [(path.name, path.stat().st_size, path.stat().st_mtime_ns)
                 for path in files if path.is_file()]
        text = json.dumps([asdict(self), stamp], sort_keys=True, default=str)
        return f'{self.name}-{hashlib.sha256(text.encode()).hexdigest()[:16]}'

    def configuration(self) -> SparserConfig:
        """The parameters of the run; ConfigError names what is unknown or out of bounds."""
        values = dict(self.parameters)
        if self.seed is not None:
            values['solver.seed'] = self.seed
        base = load_yaml(self.config) if self.config else draft(survey(self.bag))[0]
        try:
            return SparserConfig.from_mapping(merged(nested(base), nested(values)))
        except ConfigError as error:
            if self.config:
                # Where the file is at fault, its error says so.
                SparserConfig.from_yaml(self.config)
            chosen = ', '.join(f'{name}: {value}' for name, value in values.items())
            raise ConfigError(f'{self.name} with {self.set or "the grid"} ({chosen}): {error}') \
                from None


def is_solved(row: Mapping[str, Any]) -> bool:
    """Whether a run ended as `sparser replay` does with exit code 0: all robots have a place."""
    return not row['message'] and row['status'] in {s.value for s in SolveStatus if s.solved}


def name_of(bag: Path) -> str:
    """A folder may have a dot in its name; a file ends with its format."""
    return bag.name if bag.is_dir() else bag.stem


def runs_of(bags: Sequence[Path], path: Path) -> list[StudyRun]:
    """All runs, bag by bag; ConfigError for a file that does not say what to run."""
    grid = _read(path)
    sets, seeds = grid.get('sets') or {'': {}}, grid.get('seeds') or [None]
    for name, own in sets.items():
        if not isinstance(own or {}, Mapping):
            raise ConfigError(f'{path}: sets.{name}: expected parameters, got {own!r}')
    if not all(isinstance(seed, int) and not isinstance(seed, bool)
               for seed in grid.get('seeds') or []):
        raise ConfigError(f'{path}: seeds: expected whole numbers, got {seeds}')
    varied = {name: value if isinstance(value, list) else [value]
              for name, value in (grid.get('parameters') or {}).items()}
    for name, values in varied.items():
        if not values:
            raise ConfigError(f'{path}: parameters.{name}: expected one value at least')
    runs = []
    for bag in bags:
        if not bag.exists():
            raise ConfigError(f'{bag}: no such bag')
        config = str(grid.get('config') or '').replace('{bag}', name_of(bag))
        # A file named in the grid lies beside it.
        config = str((path.parent / config).resolve()) if config else ''
        for (name, own), values, seed in product(
                sets.items(), product(*varied.values()), seeds):
            parameters = {**(own or {}), **dict(zip(varied, values, strict=True))}
            if seed is not None and 'solver.seed' in parameters:
                raise ConfigError(f'{path}: seeds are values of solver.seed: give one of the two')
            runs.append(StudyRun(str(bag.resolve()), config, str(name), seed, parameters))
    for run in {(r.config or r.bag, json.dumps(r.parameters, default=str)): r
                for r in runs}.values():
        # A bag that cannot be read is a row of the table.
        with suppress(FormatError):
            run.configuration()
    return runs


def _read(path: Path) -> dict[str, Any]:
    grid = YamlFile(path).value
    if not isinstance(grid, dict) or grid.keys() - GRID.keys():
        raise ConfigError(f'{path}: expected a mapping with some of {", ".join(GRID)}')
    for key, value in grid.items():
        if value is not None and not isinstance(value, GRID[key]):
            raise ConfigError(f'{path}: {key}: expected a {GRID[key].__name__}, got {value!r}')
    return grid


def study(
    runs: Sequence[StudyRun], folder: Path, *, jobs: int = 1, scheduler: str = '',
    progress: Progress | None = None,
) -> list[dict[str, Any]]:
    """Do what is not done yet; the rows of all runs in their order.

    `folder/runs` keeps the results. A run that fails has the status `failed` and a message; it is
    tried again next time. Raises SparserError where a cluster is asked for and cannot be had.
    """
    store = folder / 'runs'
    store.mkdir(parents=True, exist_ok=True)
    rows = {run.key: row for run in runs if (row := _kept(store / f'{run.key}.json'))}
    # Two entries of a grid may mean the same run.
    left = list({run.key: run for run in runs if run.key not in rows}.values())
    if progress is not None:
        progress(len(rows), len(rows) + len(left), None)
    place: AbstractContextManager[dict[Future[dict[str, Any]], StudyRun]] = (
        nullcontext({}) if not left
        else _on_cluster(run_one, left, scheduler) if scheduler
        else in_processes(run_one, left, jobs))
    with place as futures:
        for future in as_completed(futures):
            run = futures[future]
            try:
                key, row = run.key, future.result()
            except BrokenProcessPool:
                raise SparserError(
                    f'{run.bag}: a process of the study was ended from outside, as for want of '
                    'memory; begun anew, it goes on with fewer --jobs') from None
            report.write(store / f'{key}.json', row)
            rows[key] = row
            if progress is not None:
                progress(len(rows), len({run.key for run in runs}), row)
    return [rows[run.key] for run in runs]


def run_one(run: StudyRun) -> dict[str, Any]:
    """The row of one replay: what it was, how well and how fast it went."""
    begin = time.perf_counter()
    row: dict[str, Any] = {
        'bag': run.name, 'path': run.bag, 'set': run.set, 'seed': run.seed, **run.parameters}
    try:
        state, _, _ = replay.run_calibrated(run.bag, run.configuration())
        fields = replay.report_of(state, run.name)
        nothing = replay.nothing_measured(state)
    except Exception as error:
        # One bag that fails must not end a night of others; its row says what happened.
        return {**row, 'status': 'failed', 'message': f'{type(error).__name__}: {error}',
                'seconds': time.perf_counter() - begin}
    residuals = fields['range_residuals_m'] or {}
    located = [robot['location'] == 'located' for robot in fields['locations'].values()]
    return {
        **row, 'status': 'failed' if nothing else fields['status'],
        'robots_located': sum(located), 'robots': len(located),
        'beacons_located': sum(beacon['located'] for beacon in fields['beacons'].values()),
        'rejected': len(fields['rejected']), 'left_out': fields['left_out'],
        'cost': fields['cost_final'],
        'range_rms_m': residuals.get('rms'), 'range_p95_m': residuals.get('p95_absolute'),
        'ate_rmse_m': fields['ate_rmse_m'], 'seconds': time.perf_counter() - begin,
        'message': nothing or '; '.join(replay.undetermined_robots(state))}


def _kept(path: Path) -> dict[str, Any] | None:
    """A finished row; None for one that is missing or failed."""
    if not path.exists():
        return None
    row: dict[str, Any] = json.loads(path.read_text(encoding='utf-8'))
    return None if row['status'] == 'failed' else row


@contextmanager
def in_processes(
    work: Callable[[A], R], arguments: Iterable[A], jobs: int
) -> Iterator[dict[Future[R], A]]:
    """What `work` gives for each argument, by processes of this machine.

    Ctrl-C in a terminal reaches these as well. They ignore it, from their first import on (a
    signal that is ignored stays so in processes that are started), and end by this one.
    """
    arguments = list(arguments)
    with ProcessPoolExecutor(
            min(jobs, len(arguments)), mp_context=get_context('spawn'),
            initializer=_end_with_parent, initargs=(os.getpid(),)) as pool:
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            futures = {pool.submit(work, argument): argument for argument in arguments}
        finally:
            signal.signal(signal.SIGINT, before)
        try:
            yield futures
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in active_children():
                process.terminate()
            raise


@contextmanager
def _on_cluster(
    work: Callable[[A], R], arguments: Iterable[A], scheduler: str
) -> Iterator[dict[Future[R], A]]:
    """The same by a Dask cluster, whose workers see the bags under the same paths."""
    try:
        import distributed
    except ImportError:
        raise SparserError(
            '--scheduler needs Dask: pip install distributed, or the extra [dask]') from None
    try:
        client = distributed.Client(scheduler, timeout='10s')
    except (OSError, ValueError) as error:
        raise SparserError(f'no Dask scheduler answers at {scheduler}: {error}') from None
    with client, client.get_executor(pure=False) as executor:
        yield {executor.submit(work, argument): argument for argument in arguments}


def _end_with_parent(parent: int) -> None:
    """End this process when the one that started it is gone: a killed pool leaves no orphans."""
    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(PARENT_CHECK_S)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
