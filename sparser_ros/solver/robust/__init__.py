"""Robust kernels, reweighting and graduated non-convexity (paper, section V)."""
