"""Transfer tasks: disjoint splits, SentEval's features, names and errors."""

import os
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from kosbert import data
from kosbert.data.records import LabeledPair, LabeledSentence, sentences_of
from kosbert.errors import KosbertError, UsageError
from kosbert.evaluation.transfer_tasks import (
    TASKS,
    TransferTask,
    build_features,
    paraphrase_pairs,
    stratified_split,
    suite_tasks,
)


def test_every_task_has_existing_datasets_and_a_supported_set_of_splits() -> None:
    for task in TASKS:
        for source in task.sources:
            assert set(source) in ({"all"}, {"train", "test"}, {"train", "dev", "test"})
            assert all(data.resolve(reference)[0].language == task.suite for reference in source.values())


def test_features_are_those_of_senteval() -> None:
    vectors = {"비": np.array([1, 2], np.float32), "눈": np.array([3, -1], np.float32)}
    pair = [LabeledPair("비", "눈", "0")]
    assert build_features("u", vectors, [LabeledSentence("눈", "0")]).tolist() == [[3, -1]]
    assert build_features("|u-v|, u*v", vectors, pair).tolist() == [[2, 3, 3, -2]]
    assert build_features("u, v, |u-v|, u*v", vectors, pair).tolist() == [[1, 2, 3, -1, 2, 3, 3, -2]]
    assert {task.name: task.features for task in TASKS if task.features != "u"} == {
        "mrpc": "|u-v|, u*v",
        "parakqc": "|u-v|, u*v",
        "klue-nli": "u, v, |u-v|, u*v",
    }


def test_stratified_split_is_disjoint_and_deterministic() -> None:
    rows = [LabeledSentence(f"제목 {number % 900}", str(number % 3)) for number in range(1000)]
    splits = stratified_split(max_rows=500, test_share=0.2)({"all": rows}, 7)
    train, test = ({row.text for row in splits[name]} for name in ("train", "test"))
    assert (len(splits["train"]), len(splits["test"])) == (len(train), len(test)) == (400, 100)
    assert not train & test
    assert max(Counter(row.label for row in splits["test"]).values()) <= 35
    assert splits == stratified_split(max_rows=500, test_share=0.2)({"all": rows}, 7)
    assert splits != stratified_split(max_rows=500, test_share=0.2)({"all": rows}, 8)


def test_paraphrase_pairs_are_balanced_and_disjoint() -> None:
    rows = [LabeledSentence(f"{group} {number}", str(group)) for group in range(100) for number in range(10)]
    splits = paraphrase_pairs({"all": rows}, 7)
    assert {name: len(pairs) for name, pairs in splits.items()} == {"train": 800, "test": 200}
    groups = {name: {text.split()[0] for row in pairs for text in sentences_of(row)} for name, pairs in splits.items()}
    assert not groups["train"] & groups["test"]
    for pair in (*splits["train"], *splits["test"]):
        first, second = (int(text.split()[0]) for text in sentences_of(pair))
        assert pair.label == ("same" if first == second else "other")
        assert first // 50 == second // 50
        assert pair.sentence1 != pair.sentence2
    assert Counter(pair.label for pair in splits["test"]) == {"same": 100, "other": 100}
    positives = Counter(text for row in splits["test"] if row.label == "same" for text in sentences_of(row))
    assert set(positives.values()) == {1}
    assert splits == paraphrase_pairs({"all": rows}, 7)


def test_first_available_source_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KOSBERT_CACHE", str(tmp_path))
    monkeypatch.delenv("KOSBERT_DATA", raising=False)
    available, missing = {"all": "sample-nli-dev"}, {"all": "cr"}
    sources, rows = TransferTask("either", "ko", (missing, available)).load()
    assert (sources, len(rows["all"])) == (["sample-nli-dev"], 600)
    assert len(TransferTask("either", "ko", (available,)).load(limit=50)[1]["all"]) == 50
    with pytest.raises(KosbertError, match="senteval/CR/custrev.neg of cr is missing: get it from"):
        TransferTask("neither", "ko", (missing, {"all": "mr"})).load()


def test_partial_nsmc_is_recognized_by_its_row_counts(tmp_path: Path) -> None:
    """A folder may hold 5,000 of NSMC's 150,000 reviews as ratings_train.txt."""
    (tmp_path / "nsmc").mkdir()
    header = "id\tdocument\tlabel"
    for name, count in (("train", 5_000), ("valid", 25_000), ("test", 10)):
        lines = [header, *(f"{number}\t리뷰 {number}\t{number % 2}" for number in range(count))]
        (tmp_path / "nsmc" / f"ratings_{name}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    sources, rows = next(task for task in TASKS if task.name == "nsmc").load(tmp_path)
    assert sources == ["nsmc-part-train", "nsmc-part-valid"]
    assert {split: len(examples) for split, examples in rows.items()} == {"train": 5_000, "test": 25_000}


def test_suite_tasks_are_selected_by_name() -> None:
    assert [task.name for task in suite_tasks("en")] == ["mr", "cr", "subj", "mpqa", "sst", "trec", "mrpc"]
    assert [task.name for task in suite_tasks("ko", ["sentineg", "nsmc"])] == ["nsmc", "sentineg"]
    with pytest.raises(UsageError, match="give en or ko"):
        suite_tasks("fr")
    with pytest.raises(UsageError, match="did you mean nsmc"):
        suite_tasks("ko", ["nsmcc"])


@pytest.mark.real_data
def test_number_of_3i4k_test_rows_that_are_in_train() -> None:
    try:
        _, rows = next(task for task in TASKS if task.name == "3i4k").load()
    except KosbertError as error:
        pytest.skip(str(error))
    train = {row.text for row in rows["train"]}
    seen = [row.text for row in rows["test"] if row.text in train]
    assert (len(seen), len(set(seen))) == (612, 576)  # rows, texts


@pytest.mark.real_data
def test_blocks_of_parakqc_share_topic_and_type() -> None:
    """`paraphrase_pairs` relies on blocks of fifty groups with one topic and one type of utterance."""
    path = Path(os.environ["KOSBERT_DATA"]) / "parakqc" / "paraKQC_v1.txt"
    if not path.is_file():
        pytest.skip("parakqc is not in KOSBERT_DATA")
    kinds = [line.split("\t")[:2] for line in path.read_text(encoding="utf-8").splitlines()]
    assert all(kinds[number] == kinds[number - number % 500] for number in range(10_000))
