"""The result leaves the run: its columns, and CSV, Parquet or folders of images."""
