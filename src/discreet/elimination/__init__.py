"""Policy elimination: the learner of SDP-PE, and the sets of policies that it works with.

The learner drops policies that cannot be the best, and dictates how many users each of its batches has. It runs with
the ordinary worlds and recipes of the core, so the package holds a learner and planning, and no mechanism.
"""
