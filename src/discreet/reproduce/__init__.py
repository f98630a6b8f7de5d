"""The papers' figures, through the public names only: what was claimed, what was measured, and what differs."""

from discreet.reproduce.figure import Claim, Figure, Number, Scale
from discreet.reproduce.job import Job
from discreet.reproduce.registry import FIGURES, find_figure
from discreet.reproduce.run import Reproduction, reproduce

__all__ = ["FIGURES", "Claim", "Figure", "Job", "Number", "Reproduction", "Scale", "find_figure", "reproduce"]
