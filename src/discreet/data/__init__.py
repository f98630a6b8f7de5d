"""Trajectories in tables: declared by their owner, counted where they lie, never read row by row."""

from discreet.data.check import CheckReport, check
from discreet.data.table import Table, read

__all__ = ["CheckReport", "Table", "check", "read"]
