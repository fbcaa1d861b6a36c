"""The tasks as data: parts that do not overlap, features as SentEval makes them, names and mistakes."""

import os
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from kosbert import data
from kosbert.data.records import LabeledPair, LabeledSentence, sentences_of
from kosbert.errors import KosbertError, UsageError
from kosbert.evaluation.transfer_tasks import TASKS, Task, features_of, held_out, paraphrase_pairs, suite

needs_data = pytest.mark.skipif(not os.environ.get("KOSBERT_DATA"), reason="KOSBERT_DATA is not set")


def test_every_split_exists_and_every_task_has_a_known_set_of_parts() -> None:
    for task in TASKS:
        for splits in task.splits:
            assert set(splits) in ({"all"}, {"train", "test"}, {"train", "dev", "test"})
            assert all(data.resolve(reference)[0].language == task.suite for reference in splits.values())


def test_features() -> None:
    vectors = {"비": np.array([1, 2], np.float32), "눈": np.array([3, -1], np.float32)}
    pair = [LabeledPair("비", "눈", "0")]
    assert features_of("u", vectors, [LabeledSentence("눈", "0")]).tolist() == [[3, -1]]
    assert features_of("|u-v|, u*v", vectors, pair).tolist() == [[2, 3, 3, -2]]
    assert features_of("u, v, |u-v|, u*v", vectors, pair).tolist() == [[1, 2, 3, -1, 2, 3, 3, -2]]
    assert {task.name: task.features for task in TASKS if task.features != "u"} == {
        "mrpc": "|u-v|, u*v",
        "parakqc": "|u-v|, u*v",
        "klue-nli": "u, v, |u-v|, u*v",
    }


def test_held_out_rows() -> None:
    rows = [LabeledSentence(f"제목 {number % 900}", str(number % 3)) for number in range(1000)]
    parts = held_out(most=500, share=0.2)({"all": rows}, 7)
    train, test = ({row.text for row in parts[name]} for name in ("train", "test"))
    assert (len(parts["train"]), len(parts["test"])) == (len(train), len(test)) == (400, 100)
    assert not train & test
    assert max(Counter(row.label for row in parts["test"]).values()) <= 35
    assert parts == held_out(most=500, share=0.2)({"all": rows}, 7)
    assert parts != held_out(most=500, share=0.2)({"all": rows}, 8)


def test_paraphrase_pairs() -> None:
    rows = [LabeledSentence(f"{group} {number}", str(group)) for group in range(100) for number in range(10)]
    parts = paraphrase_pairs({"all": rows}, 7)
    assert {name: len(pairs) for name, pairs in parts.items()} == {"train": 800, "test": 200}
    groups = {name: {text.split()[0] for row in pairs for text in sentences_of(row)} for name, pairs in parts.items()}
    assert not groups["train"] & groups["test"]
    for pair in (*parts["train"], *parts["test"]):
        first, second = (int(text.split()[0]) for text in sentences_of(pair))
        assert pair.label == ("same" if first == second else "other")
        assert first // 50 == second // 50
        assert pair.sentence1 != pair.sentence2
    assert Counter(pair.label for pair in parts["test"]) == {"same": 100, "other": 100}
    used = Counter(text for row in parts["test"] if row.label == "same" for text in sentences_of(row))
    assert set(used.values()) == {1}
    assert parts == paraphrase_pairs({"all": rows}, 7)


def test_the_first_data_that_is_here_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KOSBERT_CACHE", str(tmp_path))
    monkeypatch.delenv("KOSBERT_DATA", raising=False)
    here, away = {"all": "sample-nli-dev"}, {"all": "cr"}
    splits, parts = Task("either", "ko", (away, here)).load()
    assert (splits, len(parts["all"])) == (["sample-nli-dev"], 600)
    assert len(Task("either", "ko", (here,)).load(limit=50)[1]["all"]) == 50
    with pytest.raises(KosbertError, match="senteval/CR/custrev.neg of cr is missing: get it from"):
        Task("neither", "ko", (away, {"all": "mr"})).load()


def test_a_part_under_the_official_name_is_not_taken_for_the_whole(tmp_path: Path) -> None:
    """A folder may hold 5,000 of NSMC's 150,000 reviews as ratings_train.txt; counts tell the two apart."""
    (tmp_path / "nsmc").mkdir()
    header = "id\tdocument\tlabel"
    for name, rows in (("train", 5_000), ("valid", 25_000), ("test", 10)):
        lines = [header, *(f"{number}\t리뷰 {number}\t{number % 2}" for number in range(rows))]
        (tmp_path / "nsmc" / f"ratings_{name}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    splits, parts = next(task for task in TASKS if task.name == "nsmc").load(tmp_path)
    assert splits == ["nsmc-part-train", "nsmc-part-valid"]
    assert {name: len(rows) for name, rows in parts.items()} == {"train": 5_000, "test": 25_000}


def test_suites() -> None:
    assert [task.name for task in suite("en")] == ["mr", "cr", "subj", "mpqa", "sst", "trec", "mrpc"]
    assert [task.name for task in suite("ko", ["sentineg", "nsmc"])] == ["nsmc", "sentineg"]
    with pytest.raises(UsageError, match="give en or ko"):
        suite("fr")
    with pytest.raises(UsageError, match="did you mean nsmc"):
        suite("ko", ["nsmcc"])


@needs_data
def test_what_of_3i4k_is_in_train() -> None:
    try:
        _, parts = next(task for task in TASKS if task.name == "3i4k").load()
    except KosbertError as error:
        pytest.skip(str(error))
    train = {row.text for row in parts["train"]}
    seen = [row.text for row in parts["test"] if row.text in train]
    assert (len(seen), len(set(seen))) == (612, 576)  # rows, texts


@needs_data
def test_the_runs_of_parakqc() -> None:
    """Fifty groups at a time share a topic and a kind of utterance, on which `paraphrase_pairs` relies."""
    path = Path(os.environ["KOSBERT_DATA"]) / "parakqc" / "paraKQC_v1.txt"
    if not path.is_file():
        pytest.skip("parakqc is not in KOSBERT_DATA")
    kinds = [line.split("\t")[:2] for line in path.read_text(encoding="utf-8").splitlines()]
    assert all(kinds[number] == kinds[number - number % 500] for number in range(10_000))
