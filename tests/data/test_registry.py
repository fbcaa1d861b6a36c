"""The registry: entries are complete, references resolve, wrong names suggest similar ones."""

import re
from dataclasses import fields

import pytest

from kosbert import data
from kosbert.data.registry import references
from kosbert.errors import UsageError

KOREAN = ("korsts kornli klue-sts klue-nli parakqc nsmc ynat 3i4k beep sentineg", "korean-wiki-text sample")
ENGLISH = ("mr cr subj mpqa sst trec mrpc", "sts12 sts13 sts14 sts15 sts16 stsb sick-r", "snli multinli")
REQUIRED = " ".join((*KOREAN, *ENGLISH)).split()
TASKS = {"sts", "nli", "classification", "paraphrase", "corpus"}


def test_required_data_sets_are_registered() -> None:
    assert set(REQUIRED) <= set(data.datasets())


@pytest.mark.parametrize("dataset", data.datasets().values(), ids=lambda dataset: dataset.name)
def test_entry_is_complete(dataset: data.Dataset) -> None:
    for field in fields(dataset):
        if field.name != "how_to_get":
            assert getattr(dataset, field.name), field.name
    assert set(dataset.task.split(", ")) <= TASKS
    assert dataset.language in {"ko", "en"}
    assert dataset.default in dataset.splits
    assert dataset.downloadable or dataset.how_to_get
    for split in dataset.splits.values():
        assert split.rows is None or split.rows > 0
        assert split.task in {"", *dataset.task.split(", ")}
        for file in split.files:
            assert re.fullmatch(r"|sha256:[0-9a-f]{64}|git:[0-9a-f]{40}", file.checksum), file
            assert not file.url or file.url.startswith("https://")
            assert not file.path.startswith("/")
            assert ".." not in file.path


def test_downloadable_files_have_checksums() -> None:
    without_checksum = {
        d.name for d in data.datasets().values() for s in d.splits.values() for f in s.files if f.url and not f.checksum
    }
    assert without_checksum == {"korean-wiki-text"}  # none is published


def test_references_resolve_to_themselves() -> None:
    for reference in references():
        dataset, split = data.resolve(reference)
        assert reference in (dataset.name, f"{dataset.name}-{split}")


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ("korsts-test", ("korsts", "test")),
        ("klue-sts-dev", ("klue-sts", "dev")),
        ("sick-r", ("sick-r", "all")),
        ("sts12", ("sts12", "test")),
        ("sample-nli-train", ("sample", "nli-train")),
        ("nsmc-part-valid", ("nsmc-part", "valid")),
    ],
)
def test_reference_resolves_to_data_set_and_split(reference: str, expected: tuple[str, str]) -> None:
    dataset, split = data.resolve(reference)
    assert (dataset.name, split) == expected


def test_wrong_names_suggest_similar_ones() -> None:
    with pytest.raises(UsageError, match="no data set or split 'korst-test'.*korsts-test"):
        data.resolve("korst-test")
    with pytest.raises(UsageError, match="no data set 'korst'.*korsts"):
        data.get("korst")
    with pytest.raises(UsageError, match="korsts has no split 'tset'.*test"):
        data.get("korsts").split("tset")
