"""Robust kernels, reweighting and graduated non-convexity (paper, section 6)."""
