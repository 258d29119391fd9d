"""The solver as a process of its own: messages, pipe, journal."""
