"""Trajectories in tables: declared by their owner, counted by fixed rules, never shown."""

from discreet.tables.read.columns import Bins, Dates, Elapsed
from discreet.tables.read.csv_dialect import Csv
from discreet.tables.read.table import Table, read
from discreet.tables.read.table_check import CheckReport, check

__all__ = ["Bins", "CheckReport", "Csv", "Dates", "Elapsed", "Table", "check", "read"]
