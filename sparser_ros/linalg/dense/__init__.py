"""Batches of small dense blocks: rotations, projections, tangent coordinates, CG vectors."""
