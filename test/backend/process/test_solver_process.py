"""How tracker and auditor share the time."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sparser_ros.backend.process.solver_process import AuditRest


def shares(share, audit_s, scratch_s, seconds=2000.0, seed=0):
    """Shares of audits and of starts from scratch where both are always wanted."""
    random, rest = np.random.default_rng(seed), AuditRest(0.0)
    now, audits, starts = 0.0, 0.0, 0.0
    while now < seconds:
        now = max(now, rest.audit_from_s)
        audit = audit_s * random.uniform(0.5, 2.0)
        scratch = scratch_s * random.uniform(0.5, 2.0) if now >= rest.scratch_from_s else 0.0
        rest.worked(now, now + audit + scratch, scratch, share)
        audits, starts, now = audits + audit, starts + scratch, now + audit + scratch
    return audits / now, starts / now


@settings(deadline=None)
@given(share=st.floats(0.05, 1.0), audit_s=st.floats(0.01, 5.0), scratch_s=st.floats(0.01, 20.0),
       seed=st.integers(0, 100))
def test_audits_and_starts_from_scratch_together_keep_the_share(share, audit_s, scratch_s, seed):
    audits, starts = shares(share, audit_s, scratch_s, 200 * (audit_s + scratch_s) / share, seed)
    assert audits + starts <= share + 0.03
