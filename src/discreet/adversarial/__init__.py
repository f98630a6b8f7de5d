"""Adversarial losses in layered worlds: everything for this one problem, from the world to the learners.

An adversary chooses a loss table for every episode, and regret is measured against the best fixed policy in hindsight.
The package has its own worlds, encoders, channels, recipes and learners, and the two convex programs over occupancy
measures that the learners solve. Nothing in the core imports it: the registries name it as text.
"""
