"""The incremental session: the graph so far, what is solved of it, and when."""
