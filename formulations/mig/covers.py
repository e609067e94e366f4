"""Covers: sets of MIG instances that together serve one workload, and the cheapest of them in integers."""

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

NODE_LIMIT = 20_000


class MigCover(NamedTuple):
    """Cheapest set of instances found that serves a workload.

    Attributes
    ----------
    least
        Lower bound on the price of every cover: the cover's own price, unless the search was cut short.
    numbers
        Number of instances of each kind.
    """

    least: int
    numbers: tuple[int, ...]


def cheapest_cover(price: Sequence[int], rate: Sequence[int], demand: int, node_limit: int = NODE_LIMIT) -> MigCover:
    """Return the cheapest integer cover of ``demand``, by depth-first search in exact arithmetic.

    Parameters
    ----------
    price, rate
        Price and rate of one instance of each kind. A kind of rate 0 serves nothing; at least one rate is positive.
    demand
        Positive demand, in the unit of the rates.
    node_limit
        Nodes after which the search stops; ``least`` is then the price of the fractional optimum.
    """
    # By price per request: the remaining demand costs at least the ratio of the next kind.
    order = sorted((k for k in range(len(rate)) if rate[k] > 0), key=lambda k: (Fraction(price[k], rate[k]), -rate[k]))
    least = _ceil(demand * price[order[0]], rate[order[0]])
    found = _ceil(demand, rate[order[0]])
    best, best_count = found * price[order[0]], [found]
    count: list[int] = []
    nodes = 0

    def search(left: int, paid: int) -> None:
        nonlocal best, best_count, nodes
        depth = len(count)
        kind = order[depth]
        most = _ceil(left, rate[kind])
        if paid + most * price[kind] < best:
            best, best_count = paid + most * price[kind], [*count, most]
        if depth + 1 == len(order):
            return
        following = order[depth + 1]
        for number in range(most - 1, -1, -1):
            nodes += 1
            rest, so_far = left - number * rate[kind], paid + number * price[kind]
            # Fewer instances of this kind, the cheapest per request, never lower the bound.
            if so_far + _ceil(rest * price[following], rate[following]) >= best or nodes > node_limit:
                return
            count.append(number)
            search(rest, so_far)
            count.pop()

    search(demand, 0)
    numbers = [0] * len(rate)
    for kind, number in zip(order, best_count, strict=False):
        numbers[kind] = number
    return MigCover(best if nodes <= node_limit else least, tuple(numbers))


def _ceil(numerator: int, denominator: int) -> int:
    return -(-numerator // denominator)
