"""Planning in tables: values and best policies of a model, occupancies, and the repair of noisy counts.

Learners call it on models that they estimate from a release, worlds on their true tables. Planning that only one
problem needs is in the package of that problem (adversarial, elimination, linear).
"""
