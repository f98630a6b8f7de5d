"""Simulation: runs a learner in a known world under a privatizer, and measures its exact regret.

This is where a world, a privatizer and a learner meet. ``episode_loop`` is the compiled loop with a release after every
user, ``block_loop`` serves everything else, and ``data_sets`` learns from one data set.
"""
