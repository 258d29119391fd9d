"""Preconditioners of truncated CG."""
