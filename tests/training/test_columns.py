"""Conversion of rows to text columns: every row type equals a plain loop over records."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kosbert.data.columns import Columns
from kosbert.data.nli import nli_pairs, nli_triplets
from kosbert.data.records import LabeledPair, LabeledSentence, ScoredPair, Sentence, Triplet, sentences_of
from kosbert.errors import UsageError
from kosbert.training.columns import ALL_TRIPLETS, NLIOptions, TrainColumns, to_columns

texts = st.text("가나 ", max_size=2)
kinds = (
    st.builds(Sentence, texts)
    | st.builds(LabeledSentence, texts, st.sampled_from("12"))
    | st.builds(LabeledPair, texts, texts, st.sampled_from(["entailment", "neutral", "contradiction", "-"]))
    | st.builds(ScoredPair, texts, texts, st.sampled_from([0.0, 2.5, 5.0]))
    | st.builds(Triplet, texts, texts, texts)
)
records = st.lists(kinds, min_size=1, max_size=12)


def convert(rows, row_type, nli=ALL_TRIPLETS):
    """Return the rows of the text columns; None if the records give none."""
    try:
        columns = to_columns(Columns.from_records(rows), row_type, "here", nli)
    except UsageError:
        return None
    return list(zip(*columns.texts, strict=True))


@given(records, st.sampled_from(["all", "random", "last"]), st.booleans())
def test_triplets_and_pairs_equal_loops_over_records(rows, choice, both_directions):
    nli_rows = [row for row in rows if isinstance(row, LabeledPair)]
    if not nli_rows:
        choice, both_directions = "all", False
    nli = NLIOptions(choice, both_directions, seed=3)
    triplets = [row for row in rows if isinstance(row, Triplet)]
    if choice != "all":
        triplets = [Triplet(*map(str.strip, sentences_of(row))) for row in triplets]
    triplets += nli_triplets(nli_rows, triplets=choice, both_directions=both_directions, seed=3)
    expected = [sentences_of(row) for row in triplets] or None
    groups: dict[str, dict[str, None]] = {}
    for row in rows:
        if isinstance(row, LabeledSentence):
            groups.setdefault(row.label, {})[row.text] = None
    pairs = [pair for group in groups.values() for pair in pairwise(group)]
    pairs += nli_pairs(nli_rows, both_directions=both_directions)
    assert convert(rows, "triplets", nli) == expected
    assert convert(rows, "pairs", nli) == (expected or (pairs or None if choice == "all" else None))


@given(records)
def test_sentences_and_rows_equal_loops_over_records(rows):
    distinct = dict.fromkeys(text for row in rows for text in sentences_of(row) if text.strip())
    assert convert(rows, "sentences") == ([(text,) for text in distinct] or None)
    tuples = list(dict.fromkeys(map(sentences_of, rows)))
    assert convert(rows, "rows") == (tuples if len(set(map(len, tuples))) == 1 else None)


def test_labels_and_scores_follow_their_rows():
    nli = [("가", "나", "neutral"), ("가", "다", "-"), ("나", "다", "entailment"), ("다", "가", "contradiction")]
    columns = to_columns(Columns.from_records([LabeledPair(*row) for row in nli]), "labeled pairs", "here")
    assert columns.texts == (("가", "나", "다"), ("나", "다", "가"))
    assert columns.labels.tolist() == [1, 0, 2]
    scored = [ScoredPair("가", "나", 5), ScoredPair("나", "다", 1)]
    columns = to_columns(Columns.from_records(scored), "scored pairs", "here")
    assert columns.labels.tolist() == pytest.approx([1, 0.2])
    assert columns.select([1]).texts == (("나",), ("다",))
    assert columns.select([1]).labels.tolist() == pytest.approx([0.2])


@pytest.mark.parametrize(
    ("labels", "message"),
    [("xy", "the labels are x, y: NLI needs"), (["neutral"] * 2, "every row has the label neutral")],
)
def test_labels_that_are_not_nli_are_usage_errors(labels, message):
    rows = Columns.from_records([LabeledPair("가", "나", label) for label in labels])
    with pytest.raises(UsageError, match=f"^here: {message}"):
        to_columns(rows, "labeled pairs", "here")


def test_compact_keeps_the_rows_and_drops_other_sentences():
    rows = [("가", "나"), ("다", "라"), ("라", "가"), ("마", "바")]
    columns = TrainColumns.from_texts(list(zip(*rows, strict=True))).select([2, 0])
    compact = columns.compact()
    assert compact.texts == columns.texts == (("라", "가"), ("가", "나"))
    assert list(compact.sentences) == ["라", "가", "나"]
    assert [column.tolist() for column in compact.numbers] == [[0, 1], [1, 2]]
