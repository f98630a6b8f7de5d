"""discreet and its peers side by side: ``python -m experiments.peers``."""
