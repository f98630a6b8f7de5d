"""What every option of a recipe does, in one sentence each. No option weakens the guarantee: it is computed anew."""

from __future__ import annotations

from discreet.recipes.recipe import Recipe

_GROWS = "each block of users has this share of the users before it"
_BATCH = "the share of a batch whose noise is not counted on because they"

# By the name of the option, or by "recipe:option" where a recipe means something of its own.
WORDS = {
    "accumulator": "how noisy losses add up: blocks of users, tree or even-tree (a release after every user), or auto",
    "bit_level": "true simulates every single bit, which is slow, instead of sums of them",
    "blocks": "how many blocks the users are divided into, with one release each; auto takes what is expected to cost "
    "the least regret",
    "colluding": f"{_BATCH} side with the analyser",
    "dropouts": f"{_BATCH} may stay silent",
    "early_end": "true where a record may end before the horizon: every report then has one more answer, 'ended'",
    "enough": "how many standard deviations of noise a count must have before its row is no longer asked about",
    "failure_probability": "how often the bounds behind the clipping thresholds may fail",
    "features": "the feature vector of every state and action, an array (S, A, d); public",
    "first": "users of the first block, which doubles until blocks reach their usual size; auto has no such block",
    "growth": f"{_GROWS}; auto decides by the number of actions",
    "levels": "bits by which a reward is rounded; more of them round less and need more noise",
    "losses": "how tables of losses are hidden: k-norm, laplace, one-bit (one entry per user), or auto",
    "losses_private": "false declares the tables of losses public: they are published as they are, and it is said so",
    "masked": "true leaves counts that are zero for certain (actions that no policy played) without noise",
    "messages": "bits: every bit is sent by itself; anything else is refused, with the reason",
    "noise": "the law of the noise: laplace, gaussian, or auto (the one with the smaller variance)",
    "cells": "how losses are counted: bits (zeros beside ones) or signed (ones less zeros: half the Laplace noise)",
    "opening": "the share of users in a long first block, in which ucbvi and psrl act at random; auto decides by "
    "the regret that it expects, 0 is none",
    "own_actions": "true where devices draw the actions of a stochastic policy by themselves, as in a study: an item "
    "then says the action, too",
    "parts": "which part of the users each question is about; a user is in one part",
    "per_user": "how many trajectories one user may have; the noise grows with it",
    "pooling": "how visits count where steps are alike: first-visit (a pair once per user) or every-visit",
    "release": "one: a joint table of successors; both: a table of visits beside it, as in the paper",
    "response": "how a report is randomised: kary, unary, or auto (the one with less noise)",
    "rewards": "private: reward bits are counted with noise; known: mean rewards are declared public",
    "split": "the share of the budget for counts, from 0 to 1; the rest goes to losses; auto decides by the noise",
    "steps": "how many steps of a trajectory are reported, picked by public coins; auto takes the least noise",
    "threshold": "rewards are clipped to this absolute value; auto balances noise, spread and bias",
    "thresholds": "what clipping thresholds follow: index (the number of users) or released (counts released before)",
    "truncated": "true sets rewards beyond the threshold to zero, as printed, instead of clipping them",
    "vectors": "how many vectors each question has; public",
    "none/heavy-tailed:thresholds": "how fast clipping thresholds rise: root (as if the variance existed), or as in "
    "the theory by index (the number of users) or released (counts)",
    "central/arm-rewards:first": "users of an arm's first block; auto takes 8 to 12 deviations of its noise and a few",
    "shuffle/arm-rewards:first": "users of an arm's first block; auto takes 8 to 12 deviations of its noise and a few",
    "local/sampled-step:growth": "each block has this share of the users before it; auto takes 0.02 or less with many "
    "actions, and in bandits 0.05 of the users that the arm has had",
    "local/asked-first-visit:masked": "true asks about actions that the policy can play only; false about any, also "
    "those that nobody can have taken",
    "local/asked-first-visit:response": "how the state that followed is answered: kary, unary, or auto (the one with "
    "less noise); reward bits are always kary",
    "central/arm-rewards:growth": "each later block of an arm has this share of the users that the arm has had",
    "shuffle/arm-rewards:growth": "each later block of an arm has this share of the users that the arm has had",
}  # fmt: skip
_AFTER_EVERY_USER = ("local/three-tables-randomised-response", "local/three-tables-bounded")


def option_words(recipe: Recipe) -> dict[str, str]:
    """What each option of a recipe does; empty for options of recipes that are not ours and have other names."""
    return {name: _words(recipe, name) for name in recipe.options}


def _words(recipe: Recipe, option: str) -> str:
    if option == "growth" and (recipe.source != "discreet" or recipe.name in _AFTER_EVERY_USER):
        return f"{_GROWS}; auto makes a release after every user"
    if option == "growth" and recipe.heavy_tails and recipe.options[option] is not None:
        return _GROWS
    return WORDS.get(f"{recipe.name}:{option}", WORDS.get(option, ""))


def default_words(value: object) -> str:
    """A default as it would be typed; None, which leaves the choice to the recipe, is auto."""
    return "auto" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
