"""Covers: sets of MIG instances that together serve one workload, and the cheapest of them, in whole numbers."""

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

NODE_LIMIT = 20_000


class MigCover(NamedTuple):
    """The cheapest instances found that serve a workload.

    Attributes
    ----------
    least
        What no cover undercuts: their price, unless the search was cut short.
    numbers
        Instances of each kind.
    """

    least: int
    numbers: tuple[int, ...]


def cheapest_cover(price: Sequence[int], rate: Sequence[int], demand: int, node_limit: int = NODE_LIMIT) -> MigCover:
    """Return the cheapest whole numbers of each kind whose rates add up to ``demand``: depth first, exact arithmetic.

    Parameters
    ----------
    price, rate
        Of one instance of each kind; a kind of rate 0 serves nothing, and at least one rate is positive.
    demand
        Positive, in the unit of the rates.
    node_limit
        Nodes after which the search stops; then ``least`` is the price of the best fraction.
    """
    # By price for each request: what is still to be served costs at least as much as at the next kind's ratio.
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
            # Fewer of this kind, the cheapest by request, never lower the bound.
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
