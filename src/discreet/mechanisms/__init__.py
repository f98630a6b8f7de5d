"""Channels: an encoder, a noise law and an accumulator, put together into one noisy statistic.

A channel takes in sums of encodings (:mod:`discreet.mechanisms.counts`) and gives out estimates whose noise has a known
law. Most channels only add noise; the others send randomised bits, sampled items or thresholded tables. A privatizer
(:mod:`discreet.mechanisms.session`) holds one or more channels over the same users.
"""
