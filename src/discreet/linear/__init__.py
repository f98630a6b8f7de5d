"""Linear worlds: offline learning where values are linear in known features.

The learners ask linear questions (sums of phi phi^T and of phi times a target) about one data set, one after the other;
the channel answers them with noise, and the recipes split the budget over them. The benchmark world is here too.
"""
