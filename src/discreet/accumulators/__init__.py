"""Accumulators: how noisy statistics add up over users, and how many draws of noise each sum carries."""
