"""A rank-d trajectory kept at its optimum while measurements arrive."""
