"""The store: atomic writes, exact floats, finding studies and runs."""

import shutil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kosbert.errors import KosbertError, UsageError
from kosbert.study.store import (
    Store,
    StoredRun,
    read_json,
    replace_directory,
    stored_run,
    write_json,
    write_predictions,
)

FLOATS = st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=20)


@given(values=FLOATS)
def test_predictions_are_read_back_bit_for_bit(values, tmp_path_factory):
    directory = tmp_path_factory.mktemp("predictions")
    array = np.array(values)
    write_predictions(directory / "predictions", {"test": (array, -array)})
    run = StoredRun(directory, {}, {})
    assert run.gold("test").tobytes() == array.tobytes()
    assert run.predictions("test").tobytes() == (-array).tobytes()


def test_replace_directory_is_atomic_and_removes_leftovers(tmp_path):
    target = tmp_path / "run"
    with pytest.raises(KosbertError, match="could not be written"), replace_directory(target) as directory:
        shutil.copytree(tmp_path / "nothing", directory / "half")
    assert list(tmp_path.iterdir()) == []
    for text in ("first", "second"):
        with replace_directory(target) as directory:
            (directory / "file").write_text(text, encoding="utf-8")
    assert (target / "file").read_text(encoding="utf-8") == "second"
    (tmp_path / ".run-leftover").mkdir()
    with replace_directory(target) as directory:
        (directory / "file").write_text("third", encoding="utf-8")
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_damaged_json_is_named_and_nan_refused(tmp_path):
    (tmp_path / "run.json").write_text("{", encoding="utf-8")
    with pytest.raises(KosbertError, match=r"run.json is damaged .*delete its directory"):
        read_json(tmp_path / "run.json")
    with pytest.raises(ValueError, match="JSON compliant"):
        write_json(tmp_path / "nan.json", float("nan"))
    assert stored_run(tmp_path / "nothing") is None


def test_find_accepts_a_unique_prefix(finished, tmp_path):
    store, _, _ = finished
    assert store.names() == ["tiny-quick"]
    assert store.find("tiny") == store.find("tiny-quick") == store.root / "tiny-quick"
    with pytest.raises(UsageError, match="there is no study 'other'"):
        store.find("other")
    with pytest.raises(UsageError, match="run one first: kosbert study order"):
        Store(tmp_path).find("order")


def test_files_of_a_finished_run(finished):
    store, _, _ = finished
    directory = store.run("tiny-quick", "05-nli-sts-seed-2")
    assert {path.name for path in directory.iterdir()} == {"run.json", "curves.json", "scores.json", "predictions"}
    record = read_json(directory / "run.json")
    assert [stage["label"] for stage in record["stages"]] == ["nli", "sts"]
    assert record["stages"][1]["parent"] == record["stages"][0]["key"]
    assert {"kosbert", "python", "libraries", "machine"} <= set(record["provenance"])
    assert len(record["provenance"]["source_sha256"]) == 64
    assert all(len(checksum["sha256"]) == 64 for checksum in record["data"].values())
    run = stored_run(directory)
    (name,) = [name for name in run.scores if name.endswith("test.tsv")]
    assert set(run.scores[name]) >= {"cosine_spearman", "cosine_pearson", "average"}
    assert [curve["stage"] for curve in run.curves()] == ["nli", "sts"]
