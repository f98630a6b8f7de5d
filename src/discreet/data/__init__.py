"""Trajectories in tables: declared by their owner, counted by fixed rules, never shown."""

from discreet.data.checking import CheckReport, check
from discreet.data.columns import Bins, Dates
from discreet.data.dialect import Csv
from discreet.data.table import Table, read

__all__ = ["Bins", "CheckReport", "Csv", "Dates", "Table", "check", "read"]
