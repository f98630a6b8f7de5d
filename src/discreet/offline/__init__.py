"""Learning from data that are there already: ``train`` on a real table, ``simulate`` on data from known worlds."""

from discreet.offline.receipt import policy_hash
from discreet.offline.result import OfflineResult, plot_values
from discreet.offline.simulate import simulate
from discreet.offline.train import Fit, train

__all__ = ["Fit", "OfflineResult", "plot_values", "policy_hash", "simulate", "train"]
