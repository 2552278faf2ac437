"""Faults and attacks: what `make faults` tries on a real run, and what has to hold."""
