"""The search space of X_c: rotations, scaled rotations, bearings; rounding to rank d."""
