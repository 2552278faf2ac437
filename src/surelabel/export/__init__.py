"""The result table: its columns, and how it is written as CSV, Parquet or folders of images."""
