"""Synthetic photographs of food packaging with use-by dates, drawn by code."""
