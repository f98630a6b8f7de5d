"""Private bandits as published, and discreet's UCBVI, on the same bandits: ``python -m experiments.bandits``."""
