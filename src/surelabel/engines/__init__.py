"""Where training and scoring run. For now: in this process."""
