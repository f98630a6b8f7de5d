"""Channels: the ways out of the curator, each from tallies of users to estimates with noise of a known law."""
