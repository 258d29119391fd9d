"""Foreign messages read by field names: ranges and loop closures of other drivers and SLAMs."""
