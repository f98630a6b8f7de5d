"""Planning in known models: what learners do with a release, and what exact values are computed from."""
