"""One HTML page of a run, with plots that are interactive and need no network."""
