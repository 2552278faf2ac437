"""Latent Variable Adaptive Clustering: label one dataset with nets trained on another."""
