"""Trajectories in tables: declared by their owner, counted where they lie, never read row by row."""

from discreet.data.table import CheckReport, Table, check, read

__all__ = ["CheckReport", "Table", "check", "read"]
