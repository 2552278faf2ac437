"""Whole tasks: label, resume, add, predict, certify, audit, forecast."""
