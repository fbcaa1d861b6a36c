"""Convert NLI rows to pairs and triplets for ranking losses.

Deterministic: the rows of a premise are grouped in file order, also when they are not adjacent. The work is done on
sentence numbers, so that a million rows take a second; `nli_triplets` and `nli_pairs` do the same for records.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from kosbert.data.readers import NLI_LABELS
from kosbert.data.records import LabeledPair, Triplet

TripletChoice = Literal["all", "random", "last"]
Numbers = NDArray[np.integer[Any]]

_ENTAILMENT, _CONTRADICTION = NLI_LABELS.index("entailment"), NLI_LABELS.index("contradiction")


def nli_triplets(
    rows: Iterable[LabeledPair], *, triplets: TripletChoice = "all", both_directions: bool = False, seed: int = 0
) -> list[Triplet]:
    """Return triplets of premise, entailed hypothesis, contradicting hypothesis (SimCSE §5, SBERT §3.1).

    Args:
        rows: NLI rows in any order. Neutral rows are ignored; a premise needs an entailment and a contradiction.
        triplets: which hypotheses of a premise to combine: `all`, one `random` one or the `last` one of each label
            (see `NLIColumns.triplets`). For `random` and `last`, texts are stripped, as in the published scripts.
        both_directions: swap premise and hypothesis of every row too, so that hypotheses become anchors; and add
            (entailment, premise, contradiction) to every triplet.
        seed: of `random`.
    """
    texts, columns = _numbered(rows, strip=triplets != "all")
    numbers = columns.triplets(triplets, both_directions=both_directions, seed=seed)
    rows_of_numbers = zip(*(column.tolist() for column in numbers), strict=True)
    return [Triplet(texts[anchor], texts[positive], texts[negative]) for anchor, positive, negative in rows_of_numbers]


def nli_pairs(rows: Iterable[LabeledPair], *, both_directions: bool = False) -> list[tuple[str, str]]:
    """Return distinct pairs of premise and entailed hypothesis; `both_directions` adds each pair reversed."""
    texts, columns = _numbered(rows)
    premises, hypotheses = columns.pairs(both_directions=both_directions)
    return [(texts[a], texts[b]) for a, b in zip(premises.tolist(), hypotheses.tolist(), strict=True)]


def _numbered(rows: Iterable[LabeledPair], *, strip: bool = False) -> tuple[list[str], "NLIColumns"]:
    """Return the distinct sentences of records, and the records as sentence numbers."""
    numbers: dict[str, int] = {}
    table = []
    for row in rows:
        texts = [text.strip() if strip else text for text in (row.sentence1, row.sentence2)]
        label = NLI_LABELS.index(row.label) if row.label in NLI_LABELS else -1
        table.append([*(numbers.setdefault(text, len(numbers)) for text in texts), label])
    premises, hypotheses, labels = np.array(table, np.int64).reshape(-1, 3).T
    return list(numbers), NLIColumns(premises, hypotheses, labels)


@dataclass(frozen=True)
class NLIColumns:
    """NLI rows as numbers: the sentences of a row, and the position of its label in `NLI_LABELS` (-1: none of them).

    Args:
        premises: sentence numbers, (rows,): equal numbers for equal sentences.
        hypotheses: (rows,) of the same numbering.
        labels: (rows,)
    """

    premises: Numbers
    hypotheses: Numbers
    labels: Numbers

    def triplets(
        self, choice: TripletChoice, *, both_directions: bool = False, seed: int = 0
    ) -> tuple[Numbers, Numbers, Numbers]:
        """Return premises, entailed and contradicting hypotheses, in the order of the premises' first rows.

        `all`: every entailment with every contradiction, without hypotheses that equal their premise or have both
        labels. `random`: one entailment and one contradiction of each premise, drawn with the seed from the distinct
        ones. `last`: the last of each in file order. The published scripts behind these two keep useless hypotheses.

        `both_directions` adds every row with premise and hypothesis swapped before the rows are grouped, and after
        every triplet (premise, entailment, contradiction) also (entailment, premise, contradiction).
        """
        if both_directions:
            premises, positives, negatives = self._with_swapped().triplets(choice, seed=seed)
            return _interleave(premises, positives), _interleave(positives, premises), np.repeat(negatives, 2)
        first = self._first_rows()
        positives, negatives = (self._by_premise(first, label, choice) for label in (_ENTAILMENT, _CONTRADICTION))
        groups, other_groups = first[self.premises[positives]], first[self.premises[negatives]]  # ascending
        if choice != "all":
            groups, starts, sizes = np.unique(groups, return_index=True, return_counts=True)
        low, high = (np.searchsorted(other_groups, groups, side) for side in ("left", "right"))
        complete = high > low
        if choice == "all":
            sizes = high - low  # contradictions for each entailment
            left = np.repeat(np.arange(len(sizes)), sizes)
            right = np.repeat(low - (np.cumsum(sizes) - sizes), sizes) + np.arange(len(left))
        elif choice == "random":
            generator = np.random.default_rng(seed)
            left = generator.integers(starts[complete], (starts + sizes)[complete])
            right = generator.integers(low[complete], high[complete])
        else:
            left, right = (starts + sizes - 1)[complete], high[complete] - 1
        positives, negatives = positives[left], negatives[right]
        return self.premises[positives], self.hypotheses[positives], self.hypotheses[negatives]

    def pairs(self, *, both_directions: bool = False) -> tuple[Numbers, Numbers]:
        """Return the distinct pairs of premise and entailed hypothesis, in the order of the premises' first rows."""
        if both_directions:
            return self._with_swapped().pairs()
        rows = self._by_premise(self._first_rows(), _ENTAILMENT, "all")
        return self.premises[rows], self.hypotheses[rows]

    def _with_swapped(self) -> "NLIColumns":
        """Return the rows, each followed by itself with premise and hypothesis swapped."""
        premises, hypotheses = self.premises, self.hypotheses
        return NLIColumns(
            _interleave(premises, hypotheses), _interleave(hypotheses, premises), np.repeat(self.labels, 2)
        )

    def _first_rows(self) -> Numbers:
        """Return the first row of each premise, by sentence number."""
        first = np.zeros(self._sentences, np.int64)
        first[self.premises[::-1]] = np.arange(len(self.premises))[::-1]  # of repeated indices, numpy keeps the last
        return first

    @property
    def _sentences(self) -> int:
        return 1 + int(max(self.premises.max(initial=-1), self.hypotheses.max(initial=-1)))

    def _by_premise(self, first: Numbers, label: int, choice: TripletChoice) -> Numbers:
        """Return the rows of a label sorted by the first row of their premise; distinct ones unless `last`."""
        keys = self.premises * np.int64(self._sentences) + self.hypotheses
        rows = np.flatnonzero(self.labels == label)
        if choice == "all":
            useful = self.premises[rows] != self.hypotheses[rows]
            opposite = self.labels == (_CONTRADICTION if label == _ENTAILMENT else _ENTAILMENT)
            rows = rows[useful & ~np.isin(keys[rows], keys[opposite])]
        if choice != "last":
            rows = np.sort(rows[np.unique(keys[rows], return_index=True)[1]])
        sorted_rows: Numbers = rows[np.argsort(first[self.premises[rows]], kind="stable")]
        return sorted_rows


def _interleave(first: Numbers, second: Numbers) -> Numbers:
    return np.stack([first, second], axis=1).ravel()
