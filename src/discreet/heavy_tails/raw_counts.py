r"""Private-Heavy-UCBVI's release as printed, thresholds from raw counts included: it runs, and promises nothing.

Per node of a tree over K users, with log read as log2:

    visits and transitions  Lap(3 H log K / epsilon) each,      rewards  Lap(6 B_k H log K / epsilon) at episode k,
    B_n = (epsilon u n / (H (log K)^1.5 l))^(1/(1+v)),          l = ln(3 S A K H / failure_probability),

and a reward counts only if it is at most B_n, n being the raw number of visits so far.

**Formal guarantees.** None; the paper claims epsilon. Were the thresholds public, counts alone would give 4/3 epsilon
and all of it 5/3 epsilon (and L / log2 K times as much, L levels): replacing a user moves counts by 2H and not by H.
With raw counts there is no bound. Let user 1 visit a cell or not, and let every user j > 1 visit it with a reward of
B_(j-1): the reward is kept if user 1 was there, and dropped if not, so that all later leaves differ. The loss grows in
proportion to K. The audit tries that pair of data sets, encoded by the encoder that runs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from discreet.accumulators.schedule import EveryEpisode
from discreet.accumulators.tree import Tree
from discreet.errors import Unsupported
from discreet.heavy_tails.channel import ClippedRewardsChannel
from discreet.heavy_tails.encoders import moments_of
from discreet.heavy_tails.raw_count_tables import RawCountTables
from discreet.noise import Laplace
from discreet.papers import published
from discreet.recipes.recipe import Options, Recipe
from discreet.recipes.session import Privatizer
from discreet.recipes.trust import Privacy
from discreet.shape import Shape
from discreet.validation import check_open_unit

ENTRY = "published/heavy-tailed-central-raw-counts"
_AT_ONCE = 2_000_000  # numbers held at a time


@dataclass(frozen=True)
class RawCountChannel(ClippedRewardsChannel):
    """The printed release: thresholds follow raw counts, so its noise hides nobody."""


def _printed(privacy: Privacy, shape: Shape, episodes: int, options: Options) -> Privatizer:
    if privacy.epsilon is None:
        raise Unsupported("the printed noise is scaled by epsilon: give epsilon instead of rho")
    H, log = shape.horizon, math.log2(max(2, episodes))
    failure = check_open_unit("failure_probability", options["failure_probability"])
    log_term = math.log(3 * shape.states * shape.actions * episodes * H / failure)
    encoder = RawCountTables(shape, privacy.epsilon * moments_of(shape).bound / (H * log**1.5 * log_term))
    counts, rewards = (Laplace(times * H * log / privacy.epsilon) for times in (3, 6))
    channel = RawCountChannel(encoder, counts, rewards, Tree(users=episodes), episodes)
    guarantee = published(ENTRY).truth(shape, epsilon=privacy.epsilon, episodes=max(2, episodes))
    return Privatizer(_NAME, shape, (channel,), EveryEpisode(), guarantee, False, options)


_NAME = "central/heavy-tailed-published"
RECIPES = (
    Recipe(
        _NAME, "central",
        "Private-Heavy-UCBVI's tree as printed, truncated at raw counts; NOT private, see the guarantee",
        _printed, automatic=False, encoder="raw-count-tables", law="laplace", accumulator="tree",
        source="Wu, Zhou, Chowdhury, Wang, heavy-tailed rewards", options={"failure_probability": 0.1},
        heavy_tails=True,
    ),
)  # fmt: skip
