"""Encoders: what is counted of a trajectory. A record in, a vector of integer cells with an exact sensitivity out.

Encoders are the only code that reads raw records. Noise is added to sums of their cells by the channels
(:mod:`discreet.mechanisms`); ``layouts`` says which cell stands for what, and the other files say what is counted.
"""
