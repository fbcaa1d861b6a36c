"""Reciprocal rank fusion (Cormack, Clarke and Büttcher 2009): two orders become one without comparing their scores."""

from collections.abc import Iterable

OFFSET = 60
"""Their value; they found that results hardly depend on it."""


def fuse(*orders: Iterable[int]) -> dict[int, float]:
    """Sum 1 / (60 + rank) over the orders, best first; at equal sums what comes first in the first order.

    >>> list(fuse([7, 8], [8, 9]))
    [8, 7, 9]
    """
    scores: dict[int, float] = {}
    for order in orders:
        for rank, each in enumerate(order, start=1):
            scores[each] = scores.get(each, 0.0) + 1 / (OFFSET + rank)
    return dict(sorted(scores.items(), key=lambda item: -item[1]))
