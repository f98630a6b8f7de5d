r"""Private-Heavy-UCBVI's release as printed, thresholds from raw counts included: it runs, and promises nothing.

Per node of a tree over K users, with log read as log2:

    visits and transitions  Lap(3 H log K / epsilon) each,      rewards  Lap(6 B_k H log K / epsilon) at episode k,
    B_n = (epsilon u n / (H (log K)^1.5 l))^(1/(1+v)),          l = ln(3 S A K H / failure_probability),

and a reward counts only if it is at most B_n, n being the raw number of visits so far.

**Formal guarantees.** None; the paper claims epsilon. Were the thresholds public, counts alone would give 4/3 epsilon
and all of it 5/3 epsilon (and L / log2 K times as much, L levels): replacing a user moves counts by 2H and not by H.
With raw counts there is no bound. Let user 1 visit a cell or not, and let every user j > 1 visit it with a reward of
B_(j-1): the reward is kept if user 1 was there, and dropped if not, so that all later leaves differ. The loss grows in
proportion to K. ``transcript`` is that pair of data sets, encoded by the encoder that runs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from discreet.accumulators.schedule import EveryEpisode
from discreet.accumulators.tree import Tree
from discreet.encoders.base import encode
from discreet.errors import Unsupported
from discreet.heavy_tails.channel import ClippedRewardsChannel
from discreet.heavy_tails.encoders import moments_of
from discreet.heavy_tails.raw_count_tables import RawCountTables
from discreet.noise import Laplace
from discreet.papers import published
from discreet.privacy.profiles import PureProfile
from discreet.recipes.recipe import Options, Recipe
from discreet.recipes.session import Privatizer
from discreet.recipes.trust import Privacy
from discreet.shape import Shape
from discreet.streams import USERS, Stream, next_word, stream
from discreet.trajectories import Trajectories
from discreet.types import Floats
from discreet.validation import check_open_unit

ENTRY = "published/heavy-tailed-central-raw-counts"
_AT_ONCE = 2_000_000  # numbers held at a time


@dataclass(frozen=True)
class RawCountChannel(ClippedRewardsChannel):
    """The printed release, with the pair of data sets that tells most about its first user."""

    @property
    def compared(self) -> str:
        return (
            f"the first of {self.episodes} users visits a cell, or does not; the others bring rewards at its threshold"
        )

    @property
    def profile(self) -> PureProfile:
        """Of that pair alone; no profile covers all pairs."""
        return PureProfile(float(self.transcript().losses.sum()))

    def transcript(self) -> RewardNodes:
        return RewardNodes(self)


@dataclass(frozen=True)
class RewardNodes:
    """The reward nodes of one cell, with and without a visit of the first user."""

    channel: RawCountChannel
    known: bool = True

    @cached_property
    def losses(self) -> Floats:
        """How far every node moves, in units of its noise."""
        encoder, users, law = self.channel.encoder, self.channel.episodes, self.channel.reward_law
        assert isinstance(law, Laplace)
        cell = encoder.counts + (encoder.shape.start or 0) * encoder.shape.actions
        leaves = [encode(encoder, _people(self.channel, visits), stream(0, 0, USERS)) for visits in (True, False)]
        moved = np.concatenate([[0.0], np.cumsum((leaves[0] - leaves[1])[:, cell])])
        t = np.arange(1, users + 1)
        scales = np.array([encoder.threshold(int(k)) for k in t]) * law.scale
        return np.asarray(np.abs(moved[t] - moved[t - (t & -t)]) / scales)

    def sample(self, side: int, trials: int, draws: Stream) -> Floats:
        """Log-likelihood ratios of the two data sets."""
        rng, losses = np.random.default_rng(int(next_word(draws))), self.losses[self.losses > 0]
        out = np.zeros((trials, 1))
        chunk = max(1, _AT_ONCE // max(1, len(losses)))
        for start in range(0, trials, chunk):
            x = rng.laplace(size=(min(chunk, trials - start), len(losses))) + (losses if side == 0 else 0.0)
            out[start : start + chunk, 0] = (np.abs(x) - np.abs(x - losses)).sum(axis=1)
        return out


def _people(channel: RawCountChannel, visits: bool) -> Trajectories:
    """Everybody visits one cell at the first step, except perhaps the first user, and is elsewhere afterwards."""
    shape, users = channel.encoder.shape, channel.episodes
    here = shape.start or 0
    states = np.full((users, shape.horizon), (here + 1) % shape.states)
    actions = np.full_like(states, shape.actions - 1)
    rewards = np.zeros(states.shape)
    states[:, 0], actions[:, 0] = here, 0
    if not visits:
        states[0, 0], actions[0, 0] = here if shape.actions > 1 else (here + 1) % shape.states, shape.actions - 1
    # Just below the threshold that the user meets if the first one was there.
    rewards[1:, 0] = [channel.encoder.threshold(j) * (1 - 1e-12) for j in range(1, users)]
    return Trajectories(states, actions, rewards, np.full(users, shape.horizon))


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
