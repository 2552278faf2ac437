"""Studies: the paper's experiments as ordinary runs, compared with what the paper printed."""
