"""Simulated people as real HTTP clients (``people``): rehearsals of a whole study, and load for a service."""
