"""Which guesses become labels and how much they count: pure functions on arrays."""
