"""How wrong labels can be: exact bounds and tests, pure functions on arrays."""
