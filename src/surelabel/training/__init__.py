"""Losses, batches, augmentation, schedules, and one training run."""
