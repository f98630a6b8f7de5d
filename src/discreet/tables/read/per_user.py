"""The rules of :mod:`discreet.tables.read.query` on the rows of one user after another, as a compiled loop.

An engine has grouped valid rows by user (and episode), each packed into one number. Here they are put in order,
repaired and followed up. Users do not meet: whatever one of them brings changes her own output only. The same rules
exist as a query for warehouses; a test holds the two together.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from discreet.base.compiled import kernel
from discreet.base.streams import mix
from discreet.base.types import Integers, NDArray
from discreet.tables.read.columns import DAYS, MISSING, Declaration, Packing

_SHORT = 64
_END, _DROP, _ROW = range(len(MISSING))


class Rules(NamedTuple):
    """What the loop needs to know."""

    states: int
    actions: int
    horizon: int
    levels: int
    grid: int
    following: int
    per_user: int
    homogeneous: bool
    first_visit: bool
    counted_steps: int  # rows at later steps are not counted
    days: int  # the width of a step in days counted from a user's first date; 0 where rows hold steps
    missing: int  # which of the rules for missing rows
    early_end: bool
    lots: bool  # every row is an episode, and per_user of a user's are drawn


class Counted(NamedTuple):
    """What users add to cells: keys of (cell, lower level) and positions above it, user behind user.

    ``ends`` says where each user's part ends. ``repaired`` counts, for the owner of the table alone, rows of a step
    beyond its first, rows that the rule for missing ones drops, users with too many episodes, rows that lots left out,
    and steps whose rows differ.
    """

    keys: Integers
    above: Integers
    ends: Integers
    repaired: Integers

    def __repr__(self) -> str:
        return f"<Counted for {len(self.ends)} users, contents not shown>"


def rules_of(declaration: Declaration, packing: Packing, first_visit: bool) -> Rules:
    """The rules that a declaration asks for."""
    shape, dates = declaration.shape, declaration.dates
    width = dates.days if dates is not None and dates.first_day is None else 0
    return Rules(
        shape.states, shape.actions, shape.horizon, packing.levels, packing.grid, packing.following,
        declaration.per_user, shape.homogeneous, first_visit, declaration.counted_steps, width,
        list(MISSING).index(declaration.missing), declaration.early_end, declaration.cap is not None,
    )  # fmt: skip


def follow_users(
    values: Integers, episodes: Integers, users: Integers, rules: Rules, lots: NDArray[np.uint64] | None = None
) -> Counted:
    """Apply the rules: rows of episode e are values[episodes[e]:episodes[e+1]], and the same for users and episodes.

    Where rows are drawn by lot, ``lots`` is a number for each user, which her identifier decides.
    """
    left_out = 0
    if rules.lots and lots is not None:
        rows = int(episodes[users[-1]] - episodes[users[0]])
        values, episodes, users = _drawn(values, episodes[users], lots, rules)
        left_out = rows - len(values)
    rows = int(episodes[users[-1]] - episodes[users[0]])
    out = Counted(*(np.zeros(size, np.int64) for size in (rows, rows, len(users) - 1, 5)))
    longest = int(np.diff(episodes[users]).max(initial=0))
    scratch = np.zeros((5, longest), np.int64)
    total = int(_follow(values, episodes, users, rules, scratch, out))
    out.repaired[3] = left_out
    return out._replace(keys=out.keys[:total], above=out.above[:total])


def _drawn(
    values: Integers, begins: Integers, lots: NDArray[np.uint64], rules: Rules
) -> tuple[Integers, Integers, Integers]:
    """At most ``per_user`` rows of every user, each an episode of its own.

    The lot of a row is a number that her identifier, the row and how many equal rows of hers are before it decide: no
    other user's rows move it, rows of one kind are drawn as often as they are there, and all readers draw alike.
    """
    kept, many = np.empty_like(values), np.zeros(len(lots), np.int64)
    total = int(_draw(values, begins, lots, rules.per_user, kept, many))
    return kept[:total], np.arange(total + 1), np.concatenate([np.zeros(1, np.int64), np.cumsum(many)])


@kernel
def _draw(
    values: Integers, begins: Integers, lots: NDArray[np.uint64], most: int, kept: Integers, many: Integers
) -> int:
    total = 0
    for user in range(len(lots)):
        rows = np.sort(values[begins[user] : begins[user + 1]])
        drawn, copy = np.zeros(len(rows), np.uint64), 0
        for i in range(len(rows)):
            copy = copy + 1 if i > 0 and rows[i] == rows[i - 1] else 0
            drawn[i] = mix(mix(mix(lots[user]) ^ np.uint64(rows[i])) + np.uint64(copy))
        order = np.argsort(drawn, kind="mergesort")[:most]
        many[user] = len(order)
        for i in order:
            kept[total] = rows[i]
            total += 1
    return total


@kernel
def _follow(
    values: Integers, episodes: Integers, users: Integers, rules: Rules, scratch: Integers, out: Counted
) -> int:
    S, A, levels, following = rules.states, rules.actions, rules.levels, rules.following
    positions = (levels - 1) * rules.grid + 1
    items = S * A * positions * following
    of_pair = positions * following
    steps, pairs, rests, counted = scratch[0], scratch[1], scratch[2], scratch[3]
    total = 0
    for user in range(len(users) - 1):
        began = total
        first, last = users[user], users[user + 1]
        if last - first > rules.per_user:
            out.repaired[2] += 1
            last = first + rules.per_user
        for episode in range(first, last):
            rows = _ordered(values[episodes[episode] : episodes[episode + 1]], rests, items, rules)
            kept, whole, before, differ = 0, True, -1, False
            for i in range(rows):
                row = rests[i]
                step = row // items
                if step >= rules.horizon:  # a row that is not valid: they stand behind the others
                    whole = False
                    break
                if before >= 0 and before // items == step:
                    out.repaired[0] += 1
                    if row != before and not differ:
                        differ = True
                        out.repaired[4] += 1
                        if rules.missing != _ROW:  # nobody knows which of them is so: the step is missing
                            kept, whole = kept - 1, False
                else:
                    rest = row - step * items
                    pair = rest // of_pair
                    steps[kept], pairs[kept], rests[kept] = step, pair, rest - pair * of_pair
                    kept, differ = kept + 1, False
                before = row
            if rules.missing != _ROW:
                unbroken = 0
                while unbroken < kept and steps[unbroken] == unbroken:
                    unbroken += 1
                if rules.missing == _DROP and not (
                    whole and unbroken == kept and (rules.early_end or kept == rules.horizon)
                ):
                    unbroken = 0
                out.repaired[1] += kept - unbroken
                kept = unbroken
            for i in range(kept):
                step, pair, position, told = steps[i], pairs[i], rests[i], S
                if following > 1:
                    position = rests[i] // following
                    told = rests[i] - position * following
                if (following > 1 and step == rules.horizon - 1) or (i + 1 == kept and rules.missing != _ROW):
                    successor = S
                elif told < S:
                    successor = told
                elif i + 1 == kept:
                    successor = S
                elif steps[i + 1] == step + 1:
                    successor = pairs[i + 1] // A
                else:
                    out.repaired[1] += 1
                    continue
                if step >= rules.counted_steps:
                    continue
                level = 0 if levels == 2 else min(position // rules.grid, levels - 2)
                group = 0 if rules.homogeneous else step
                cell = (group * S * A + pair) * (S + 1) + successor
                out.keys[total] = cell * (levels - 1) + level
                out.above[total] = position - level * rules.grid
                counted[total - began] = pair
                total += 1
        if rules.first_visit:
            total = _first_of_each(counted[: total - began], scratch[4], began, out)
        out.ends[user] = total
    return total


@kernel
def _ordered(rows: Integers, out: Integers, items: int, rules: Rules) -> int:
    """Copy the rows of an episode in order; dates become steps from the first of them on."""
    count = len(rows)
    out[:count] = rows
    if rules.days > 0 and count > 0:
        origin, marked = out[:count].min() // items, DAYS * items
        kept = 0
        for i in range(count):
            valid = out[i] < marked
            step = ((out[i] // items if valid else out[i] - marked) - origin) // rules.days
            if step < rules.horizon:
                out[kept] = step * items + out[i] % items if valid else rules.horizon * items
                kept += 1
        count = kept
    if count > _SHORT:
        out[:count].sort()
        return count
    for i in range(1, count):  # mostly they are in order already
        row, place = out[i], i
        while place > 0 and out[place - 1] > row:
            out[place] = out[place - 1]
            place -= 1
        out[place] = row
    return count


@kernel
def _first_of_each(pairs: Integers, order: Integers, began: int, out: Counted) -> int:
    """Keep the first of a user's rows of every pair of state and action, in their order."""
    count = len(pairs)
    order[:count] = np.argsort(pairs, kind="mergesort")
    for i in range(count):
        if i > 0 and pairs[order[i]] == pairs[order[i - 1]]:
            out.above[began + order[i]] = -1
    total = began
    for i in range(began, began + count):
        if out.above[i] >= 0:
            out.keys[total] = out.keys[i]
            out.above[total] = out.above[i]
            total += 1
    return total
