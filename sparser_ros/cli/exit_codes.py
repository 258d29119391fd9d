"""Exit codes of the `sparser` command and of the demonstration."""

SOLVED = 0
BAD_INPUT = 2
"""The message on stderr says which file, line or option, and what to change."""
NOT_CONVERGED = 3
"""Not converged, or parts of the map are undetermined, which stderr names; the best iterate is
written all the same."""
INTERRUPTED = 130
"""128 + SIGINT, as a shell reports it."""
TERMINATED = 143
"""128 + SIGTERM."""
