"""Errors a user can act on: one root, one subclass per kind of input."""


class SparserError(Exception):
    """Root of every error this package raises for bad input or an impossible request."""


class ConfigError(SparserError):
    """A parameter, option or configuration file is wrong; the text names it and says how."""


def refuse(wrong: object, text: str) -> None:
    """ConfigError where something is wrong."""
    if wrong:
        raise ConfigError(text)


class GraphError(SparserError):
    """A graph is inconsistent: an unknown key, a bad weight, an ill-formed measurement."""


class FormatError(SparserError):
    """A file cannot be read; the text gives file, line and what was expected."""

    def __init__(self, path: object, line: int | None, message: str) -> None:
        where = f'{path}:{line}' if line is not None else f'{path}'
        super().__init__(f'{where}: {message}')
        self.path = path
        self.line = line
        self._message = message

    def __reduce__(self) -> tuple[type, tuple[object, int | None, str]]:
        # Another process pickles an exception by its text alone, which makes no other of it.
        return type(self), (self.path, self.line, self._message)


class ConfigFileError(FormatError, ConfigError):
    """A configuration file cannot be read."""


class SolverError(SparserError):
    """The problem cannot be solved as posed; the text says what is missing."""


class SolveWarning(UserWarning):
    """What a user of the Python functions must know of data or solution; it is no error."""
