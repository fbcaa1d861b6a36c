"""Files that are whole or not there, and numbers that come back to the bit."""

import shutil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kosbert.errors import KosbertError, UsageError
from kosbert.study.store import Store, StoredRun, read_json, stored_run, whole_folder, write_json, write_predictions

FLOATS = st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=20)


@given(values=FLOATS)
def test_predictions_come_back_to_the_bit(values, tmp_path_factory):
    folder = tmp_path_factory.mktemp("predictions")
    array = np.array(values)
    write_predictions(folder / "predictions", {"test": (array, -array)})
    run = StoredRun(folder, {}, {})
    assert run.gold("test").tobytes() == array.tobytes()
    assert run.predictions("test").tobytes() == (-array).tobytes()


def test_a_folder_is_whole_or_not_there(tmp_path):
    target = tmp_path / "run"
    with pytest.raises(KosbertError, match="cannot be written"), whole_folder(target) as folder:
        shutil.copytree(tmp_path / "nothing", folder / "half")
    assert list(tmp_path.iterdir()) == []
    for text in ("first", "second"):
        with whole_folder(target) as folder:
            (folder / "file").write_text(text, encoding="utf-8")
    assert (target / "file").read_text(encoding="utf-8") == "second"
    (tmp_path / ".run-left-over").mkdir()
    with whole_folder(target) as folder:
        (folder / "file").write_text("third", encoding="utf-8")
    assert [each.name for each in tmp_path.iterdir()] == ["run"]


def test_a_damaged_file_is_named(tmp_path):
    (tmp_path / "run.json").write_text("{", encoding="utf-8")
    with pytest.raises(KosbertError, match=r"run.json is damaged .*remove its folder"):
        read_json(tmp_path / "run.json")
    with pytest.raises(ValueError, match="JSON compliant"):
        write_json(tmp_path / "nan.json", float("nan"))
    assert stored_run(tmp_path / "nothing") is None


def test_finding_a_study(finished, tmp_path):
    store, _, _ = finished
    assert store.names() == ["tiny-quick"]
    assert store.find("tiny") == store.find("tiny-quick") == store.root / "tiny-quick"
    with pytest.raises(UsageError, match="there is no study 'other'"):
        store.find("other")
    with pytest.raises(UsageError, match="run one first: kosbert study order"):
        Store(tmp_path).find("order")


def test_what_a_run_leaves(finished):
    store, _, _ = finished
    folder = store.run("tiny-quick", "05-nli-sts-seed-2")
    assert {each.name for each in folder.iterdir()} == {"run.json", "curves.json", "scores.json", "predictions"}
    record = read_json(folder / "run.json")
    assert [each["label"] for each in record["stages"]] == ["nli", "sts"]
    assert record["stages"][1]["start"] == record["stages"][0]["hash"]
    assert {"kosbert", "python", "libraries", "machine"} <= set(record["lineage"])
    assert len(record["lineage"]["kosbert"]["sha256"]) == 64
    assert all(len(each["sha256"]) == 64 for each in record["data"].values())
    run = stored_run(folder)
    (name,) = [each for each in run.scores if each.endswith("test.tsv")]
    assert set(run.scores[name]) >= {"cosine_spearman", "cosine_pearson", "average"}
    assert [each["stage"] for each in run.curves()] == ["nli", "sts"]
