"""The gauntlet: many worlds of different kinds, every learner, every trust model, and the worst run of each.

A mean over runs in two worlds hides a learner that fails in one run of ten, or in every world but those two. Here the
worlds are fixed beforehand and split into halves: constants may be chosen on the *tuning* half, and what is reported
comes from the *validation* half.
"""
