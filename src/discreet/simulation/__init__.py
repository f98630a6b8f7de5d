"""Simulation: the one place where a world, a privatizer and a learner meet."""
