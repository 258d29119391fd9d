"""When the auditor may work again, so that it works no more than a share of its time."""

from __future__ import annotations


class AuditRest:
    """Rest after audits and after starts from scratch; all times in s of one clock.

    All work draws on one account, `share` of the time. A start from scratch waits until all work
    before it has been rested for. Audits without one go on meanwhile, with half of the share, so
    that the other half pays for the next start and for bounds.
    """

    def __init__(self, now_s: float) -> None:
        self.audit_from_s = self.scratch_from_s = now_s

    def worked(self, begin_s: float, end_s: float, scratch_s: float, share: float) -> None:
        """An audit took this long, `scratch_s` of it for a start from scratch."""
        indebted = scratch_s > 0 or self.scratch_from_s > begin_s
        self.also_worked(begin_s, end_s, share)
        own = share / 2 if indebted else share
        self.audit_from_s = end_s + (end_s - begin_s - scratch_s) * (1 - own) / own

    def also_worked(self, begin_s: float, end_s: float, share: float) -> None:
        """Something else, after which an audit need not wait, took this long."""
        self.scratch_from_s = max(self.scratch_from_s, begin_s) + (end_s - begin_s) / share
