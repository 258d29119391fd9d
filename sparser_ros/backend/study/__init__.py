"""Many bags times parameter sets times seeds, replayed in processes or on a cluster."""
