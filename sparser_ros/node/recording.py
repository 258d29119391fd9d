"""The journal as the node uses it: what goes wrong with it is told, and never stops the node."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..backend.process import resume
from ..backend.process.journal import Journal
from ..backend.process.journal_files import Files
from ..backend.process.journal_records import Message
from ..backend.process.kept_map import KeptMap
from ..backend.process.resume import Deserialise
from ..backend.session.rulings import Rulings
from ..config import SparserError
from ..config.sparser import SparserConfig
from ..frontend import Frontend, Inputs, Route
from ..graph import Increment
from ..graph.finding import Finding


class Recording:
    """Begins or goes on with a session; without a folder nothing is kept."""

    def __init__(self, config: SparserConfig, folder: Path | None,
                 deserialise: Deserialise) -> None:
        self._config = config
        self._journal: Journal | None = None
        self._problem = ''
        self._kept: KeptMap | None = None
        self.resumed = resume.fresh(config)
        self._files = Files(folder, config.node.journal.max_mb) if folder is not None else None
        if self._files is not None:
            self._start(self._files, deserialise)
        self._archived = max((one.sequence for one in self.resumed.increments), default=-1)
        self._thinnings = self.resumed.frontend.thinnings
        """How often the graph was thinned at the last checkpoint."""

    def _start(self, files: Files, deserialise: Deserialise) -> None:
        try:
            files.open()
            if self._config.node.journal.resume:
                self.resumed = resume.resume(files, self._config, deserialise)
            self._journal = resume.open_journal(files, self._config, self.resumed)
        except (OSError, SparserError) as error:
            self._problem = str(error)
            if self._config.node.journal.resume and isinstance(error, SparserError):
                self._problem = f'not resumed, a new map begins: {error}'
                self._begin_anew(files)

    def _begin_anew(self, files: Files) -> None:
        """What is there stays as it is."""
        try:
            files.open()
            self._journal = resume.open_journal(files, self._config, self.resumed)
        except (OSError, SparserError) as error:
            self._problem = f'{self._problem}; {error}'

    @property
    def words(self) -> str:
        """Which session it is, for the log; '' = nothing was to be resumed."""
        if self._files is None or not self._config.node.journal.resume:
            return ''
        resumed = self.resumed
        if resumed.number is None:
            return f'nothing to resume in {self._files.directory}: a new map begins'
        keyframes = sum(len(one.poses) for one in resumed.increments)
        return (f'session {resumed.number} of {self._files.directory} goes on: '
                f'{resumed.messages} messages, {keyframes} keyframes')

    @property
    def inputs(self) -> Inputs:
        """The routes, with what their adapters remember."""
        return self.resumed.inputs

    @property
    def path(self) -> str:
        """Of the file being written; '' = none."""
        return '' if self._journal is None else self._journal.state.path

    def message(self, route: Route, data: bytes, received_ns: int) -> None:
        """Keep a message that the front-end is about to take in."""
        if self._journal is not None:
            self._journal.message(Message(route.topic, route.type, received_ns, data))

    def take(self, flush: bool) -> int:
        """The front-end makes keyframes; number of the record that must be on disk for them."""
        return -1 if self._journal is None else self._journal.take(flush)

    def safe(self, number: int) -> bool:
        """Whether a record is on disk, or never will be."""
        return self._journal is None or self._journal.durable >= number

    def checkpoint(self, frontend: Frontend, increments: Sequence[Increment]) -> None:
        """Where the file is full: begin another, with the state right after `take`."""
        journal = self._journal
        if journal is None or not journal.due:
            return
        newest = increments[-1].sequence if increments else -1
        anew = frontend.thinnings != self._thinnings
        journal.checkpoint(
            resume.state_record(frontend, self.inputs, newest, journal.topics),
            [one for one in increments if anew or one.sequence > self._archived], anew=anew)
        self._archived, self._thinnings = newest, frontend.thinnings

    def keep_map(self, kept: KeptMap | None) -> None:
        """Write the newest verdict, if it is another."""
        if self._journal is None or kept is None or (
                self._kept is not None and kept.verdict is self._kept.verdict):
            return
        self._kept = kept
        self._journal.keep_map(kept.encoded)

    def rule(self, rulings: Rulings) -> int:
        """Keep what the operator says; number of the record that must be on disk for it."""
        return -1 if self._journal is None else self._journal.rule(rulings.values())

    def restart(
        self, config: SparserConfig, positions: dict[str, list[float]] | None, rulings: Rulings,
        frontend: Frontend,
    ) -> None:
        """All data are forgotten; the front-end begins with this configuration."""
        self._archived, self._thinnings, self._kept = -1, 0, None
        if self._journal is not None:
            begin = resume.begin_values(config, positions, rulings, frontend.frames.values())
            loaded = config.radios != self._config.radios
            self._journal.restart({**begin, resume.LOADED: loaded})

    @property
    def findings(self) -> list[Finding]:
        """What is wrong with the journal, and what it could not give back."""
        found = [Finding('journal_lost', 'journal', text) for text in self.resumed.notes]
        state = None if self._journal is None else self._journal.state
        problem = self._problem or (state.problem if state is not None else '')
        if problem:
            anew = '' if self.resumed.number is None else (
                '; the map goes on from what it holds, nothing new is kept')
            found.insert(0, Finding(
                'journal_failed', 'journal',
                f'the journal is not written, a crash would lose data: {problem}{anew}'
                if self._journal is None or not self._problem else problem))
        return found

    def close(self) -> None:
        """Write what waits, and let go of the folder."""
        if self._journal is not None:
            self._journal.close()
        if self._files is not None:
            self._files.close()

