"""The run folder: lock, rounds, people's answers."""
