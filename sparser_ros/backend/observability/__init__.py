"""What the measurements determine: which robots and landmarks have a unique place."""
