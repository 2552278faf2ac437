"""Where training and scoring run: in this process, or on Ray."""
