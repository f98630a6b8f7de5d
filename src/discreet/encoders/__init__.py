"""Encoders: a trajectory in, integer cells with an exact sensitivity out. One file per encoder."""
