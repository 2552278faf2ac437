"""Algorithm 1: one round, stop rules, the loop, typed events."""
