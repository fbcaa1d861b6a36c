"""Published files in KOSBERT_DATA have the published row counts, checksums and content."""

import pytest

from kosbert import data
from kosbert.data.locate import find, verified

SPLITS = [(d, split) for d in data.datasets().values() for split in d.splits if d.splits[split].files]


@pytest.mark.real_data
@pytest.mark.parametrize(("dataset", "split"), SPLITS, ids=[f"{d.name}-{split}" for d, split in SPLITS])
def test_row_count_is_as_published(dataset: data.Dataset, split: str) -> None:
    if not data.available(dataset, split):
        pytest.skip(f"{dataset.name}-{split} is not in KOSBERT_DATA")
    if dataset.name == "nsmc" and data.available(data.get("nsmc-part"), "train"):
        pytest.skip("KOSBERT_DATA has a part of NSMC under the official name")
    rows = data.load(f"{dataset.name}-{split}", download=False)  # raises if the count is wrong
    assert all(text is not None for row in rows[:100] for text in data.sentences_of(row))


@pytest.mark.real_data
@pytest.mark.parametrize(("dataset", "split"), SPLITS, ids=[f"{d.name}-{split}" for d, split in SPLITS])
def test_checksum_is_as_published(dataset: data.Dataset, split: str) -> None:
    if dataset.name == "nsmc" and data.available(data.get("nsmc-part"), "train"):
        pytest.skip("KOSBERT_DATA has a part of NSMC under the official name")
    verdicts = {file.path: verified(file, path) for file in dataset.splits[split].files if (path := find(file))}
    if not any(verdict is not None for verdict in verdicts.values()):
        pytest.skip(f"no file of {dataset.name}-{split} with a published checksum is in KOSBERT_DATA")
    assert False not in verdicts.values()


def rows_of(reference: str) -> list[data.Record]:
    if not data.available(*data.resolve(reference)):
        pytest.skip(f"{reference} is not in KOSBERT_DATA")
    return data.load(reference, download=False)


def test_korsts_test_content() -> None:
    rows = rows_of("korsts-test")
    assert rows[0] == data.ScoredPair(
        "한 소녀가 머리를 스타일링하고 있다.", "한 소녀가 머리를 빗고 있다.", 2.5, "MSRvid"
    )
    assert {row.source for row in rows} == {"MSRvid", "images", "track5.en-en", "answer-answer", "MSRpar", "headlines"}


def test_klue_sts_dev_has_votes_and_sources() -> None:
    rows = rows_of("klue-sts-dev")
    assert rows[0].votes == (5, 5, 5, 5, 4, 5, 5)
    assert len({row.source for row in rows}) == 6
    assert {len(row.votes) for row in rows} == {5, 6, 7}


def test_number_of_klue_nli_triplets() -> None:
    triplets = data.nli_triplets(rows_of("klue-nli-train"))
    assert 8_500 < len(triplets) < 8_700
