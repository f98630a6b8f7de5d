"""Accumulators: how noisy statistics add up over users, and how many draws of noise each sum carries.

A channel (:mod:`discreet.mechanisms`) pairs one with an encoder and a noise law. The accumulator decides how often
noise is drawn: once, per block of users, per user, or per node of a tree. ``schedule`` says when releases happen.
"""
