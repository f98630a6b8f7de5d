"""Small worlds of operations research: forest, machine repair, admission to a queue, inventory.

The classics of Markov decision processes outside games, see Puterman, *Markov Decision Processes* (1994), chapters 3
and 4. By default the best policies let the forest grow old (and cut young ones only near the end), repair when the
machine is worn, admit while the queue is short, and order up to a level. All rewards lie in [0, 1]; costs are scaled by
numbers that are public.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from discreet.base.errors import InvalidInput
from discreet.base.types import Floats
from discreet.base.validation import check_count, check_not_negative, check_probabilities
from discreet.worlds.classics import check_chance, first_of, numbers
from discreet.worlds.rewards import Bernoulli, Deterministic, OnTransition
from discreet.worlds.tabular import TabularWorld


def forest(
    ages: int = 5,
    horizon: int = 20,
    fire: float = 0.1,
    stand: float = 1.0,
    cut_old: float = 0.5,
    cut_young: float = 0.25,
) -> TabularWorld:
    """Forest management: wait (action 0) or cut (action 1), while fires threaten.

    The state is the age class. Waiting makes the forest one class older, up to the last, unless a fire (probability
    ``fire``) takes it back to the first; in the last class it earns ``stand``. Cutting leads to the first class and
    earns ``cut_old`` in the last class, ``cut_young`` in those between, nothing in the first. The example of the MDP
    toolbox of Chadès et al. (2014), there with three classes and rewards of 4, 2 and 1.

    Args:
        ages: Age classes.
        horizon: Steps of an episode.
        fire: The probability of a fire.
        stand: What an old forest earns that is left alone.
        cut_old: What cutting the last class earns.
        cut_young: What cutting a class between earns.

    Examples:
        >>> import discreet
        >>> discreet.worlds.forest(ages=3).shape.states
        3
    """
    n = check_count("ages", ages, at_least=2)
    fire = check_chance("fire", fire)
    transitions, means = np.zeros((1, n, 2, n)), np.zeros((1, n, 2))
    for s in range(n):
        transitions[0, s, 0, min(s + 1, n - 1)] = 1.0 - fire
        transitions[0, s, 0, 0] += fire
    transitions[0, :, 1, 0] = 1.0
    means[0, 1:, 1] = check_chance("cut_young", cut_young)
    means[0, -1] = check_chance("stand", stand), check_chance("cut_old", cut_old)
    return TabularWorld(f"forest-{n}", transitions, Deterministic(means), first_of(n), horizon)


def machine_repair(conditions: int = 4, horizon: int = 20, wear: float = 0.3) -> TabularWorld:
    """Machine repair: run a machine that wears out (action 0), or lose one step to make it new (action 1).

    The state is its condition, 0 (new) to ``conditions`` - 1 (broken). A run makes a good piece, which pays 1, with
    probability 1 - condition / (``conditions`` - 1), and wears the machine by one condition with probability ``wear``.
    A repair makes nothing. Derman (1970), chapter on replacement.

    Args:
        conditions: How many, from new to broken.
        horizon: Steps of an episode.
        wear: The probability that a run wears the machine.

    Examples:
        >>> import discreet
        >>> discreet.worlds.machine_repair(conditions=3).shape.states
        3
    """
    n = check_count("conditions", conditions, at_least=2)
    wear = check_chance("wear", wear)
    transitions, means = np.zeros((1, n, 2, n)), np.zeros((1, n, 2))
    for s in range(n):
        transitions[0, s, 0, s] = 1.0 - wear
        transitions[0, s, 0, min(s + 1, n - 1)] += wear
        means[0, s, 0] = 1.0 - s / (n - 1)
    transitions[0, :, 1, 0] = 1.0
    return TabularWorld(f"machine-repair-{n}", transitions, Bernoulli(means), first_of(n), horizon)


def admission(
    capacity: int = 5, horizon: int = 20, arrival: float = 0.7, service: float = 0.5, fee: float = 0.5
) -> TabularWorld:
    """Admission to a queue: send the customer at the door away (action 0) or let her in (action 1).

    The state is (customers inside, 0 to ``capacity``; somebody at the door or not), numbered 2 inside + door. A
    customer who is let in pays ``fee``; in a full house nobody is. Every step besides earns (1 - ``fee``) times the
    share of free places, so that each customer inside costs (1 - ``fee``) / ``capacity`` per step. Then, if anybody is
    inside, one is served and leaves with probability ``service``, and with probability ``arrival`` somebody is at the
    door in the next step. Puterman (1994), section 3.7; Stidham (1985).

    Args:
        capacity: Places inside.
        horizon: Steps of an episode.
        arrival: The probability that somebody comes.
        service: The probability that one is served.
        fee: What a customer pays.

    Examples:
        >>> import discreet
        >>> discreet.worlds.admission(capacity=2).shape.states
        6
    """
    places = check_count("capacity", capacity)
    arrival, service, fee = check_chance("arrival", arrival), check_chance("service", service), check_chance("fee", fee)
    states = 2 * (places + 1)
    transitions, means = np.zeros((1, states, 2, states)), np.zeros((1, states, 2))
    for s in range(states):
        inside, door = divmod(s, 2)
        for action in (0, 1):
            enters = int(action == 1 and door == 1 and inside < places)
            means[0, s, action] = fee * enters + (1.0 - fee) * (1.0 - inside / places)
            busy = inside + enters
            for left, chance in ((busy, 1.0 - service), (busy - 1, service)) if busy else ((0, 1.0),):
                transitions[0, s, action, 2 * left : 2 * left + 2] += chance * (1.0 - arrival), chance * arrival
    return TabularWorld(f"admission-{places}", transitions, Deterministic(means), first_of(states), horizon)


def inventory(
    capacity: int = 3,
    horizon: int = 12,
    demand: str | Sequence[float] = "0.25,0.5,0.25",
    price: float = 8.0,
    order: float = 4.0,
    unit: float = 2.0,
    holding: float = 1.0,
) -> TabularWorld:
    """Inventory control: ``a`` units are ordered (what does not fit is not), arrive at once, and demand is met or lost.

    The state is the stock, 0 to ``capacity``; everybody starts with none. With u units after delivery and D the demand,
    whose probabilities for 0, 1, ... are given, the profit is

        price * min(D, u) - (order + unit * ordered, if anything is ordered) - holding * u

    and the reward is the profit, moved and scaled so that the least and the largest possible one are 0 and 1. Puterman
    (1994), section 3.2, with the numbers of his example as defaults.

    Args:
        capacity: The largest stock.
        horizon: Steps of an episode.
        demand: The probabilities of demands 0, 1, ..., as numbers or as text with commas.
        price: Of a unit that is sold.
        order: The fixed cost of an order.
        unit: The cost of a unit that is ordered.
        holding: The cost of a unit in stock, per step.

    Examples:
        >>> import discreet
        >>> discreet.worlds.inventory(capacity=2).shape.actions
        3
    """
    size = check_count("capacity", capacity)
    chances = check_probabilities("demand", numbers("demand", demand))
    price, order = check_not_negative("price", price), check_not_negative("order", order)
    unit, holding = check_not_negative("unit", unit), check_not_negative("holding", holding)
    transitions = np.zeros((1, size + 1, size + 1, size + 1))
    profit = np.full(transitions.shape, np.nan)
    for stock in range(size + 1):
        for action in range(size + 1):
            ordered = min(action, size - stock)
            held = stock + ordered
            cost = order * (ordered > 0) + unit * ordered + holding * held
            for wanted, chance in enumerate(chances):
                sold = min(wanted, held)
                transitions[0, stock, action, held - sold] += chance
                profit[0, stock, action, held - sold] = price * sold - cost
    rewards = _to_unit(profit)
    return TabularWorld(f"inventory-{size}", transitions, OnTransition(rewards), first_of(size + 1), horizon)


def _to_unit(profit: Floats) -> Floats:
    """Moved and scaled into [0, 1]; transitions that cannot happen earn 0."""
    low, high = float(np.nanmin(profit)), float(np.nanmax(profit))
    if not low < high:
        raise InvalidInput("all profits are equal, so there is nothing to decide: give a price or a cost above 0")
    return np.nan_to_num((profit - low) / (high - low), nan=0.0)
