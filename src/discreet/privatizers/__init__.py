"""Privatizers: the only code that touches raw data. Channels, trust models and named recipes."""
