"""Public datasets of digits."""
