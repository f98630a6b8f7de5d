"""Moments: sums of features and of their products, released with noise."""
