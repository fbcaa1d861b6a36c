"""Usage errors are one sentence with the fix, raised before the first training step."""

import pytest

from kosbert.data.columns import Columns
from kosbert.data.records import ScoredPair
from kosbert.errors import KosbertError, UsageError
from kosbert.training import Recipe, train, trainer
from kosbert.training.columns import to_columns


@pytest.fixture
def error_message(document, tmp_path, monkeypatch):
    """Return a function that trains a changed recipe and returns the error message; no step may run."""
    monkeypatch.setattr(trainer, "run_stage", None)

    def train_and_catch(error=UsageError, out=None, **changes):
        with pytest.raises(error) as caught:
            train(Recipe.parse(document | changes), out or tmp_path / "run")
        assert "\n" not in str(caught.value)
        assert type(caught.value) is error
        return str(caught.value)

    return train_and_catch


def stages(*last):
    """Return a correct stage and one with a mistake, which must be found before the first is trained."""
    first = {"name": "first", "data": "sts", "loss": "cosine-similarity", "epochs": 1}
    return {"stages": [first, {"name": "second", "data": "sts", "loss": "cosine-similarity", "epochs": 1} | dict(last)]}


def test_a_hub_name_without_network(error_message):
    assert "klue/nothing is neither a directory nor in the cache" in error_message(
        KosbertError, backbone="klue/nothing"
    )


def test_a_missing_directory(error_message, tmp_path):
    assert "give a directory" in error_message(UsageError, backbone=str(tmp_path / "no" / "model"))


def test_unknown_role_and_data_set(error_message):
    message = error_message(**stages(("data", "nil")))
    assert message.startswith("there is no role, data set or file 'nil': did you mean nli")
    assert "'korsts-tran': did you mean korsts-train" in error_message(dev="korsts-tran")


def test_a_missing_file(error_message):
    assert (
        error_message(**stages(("data", "missing.tsv")))
        == "there is no file missing.tsv: give a path that exists or the name of a split"
    )


@pytest.mark.parametrize("text", ["", "sentence1\tsentence2\tscore\n"])
def test_an_empty_file(error_message, tmp_path, text):
    (tmp_path / "empty.tsv").write_text(text, encoding="utf-8")
    message = error_message(KosbertError, **stages(("data", str(tmp_path / "empty.tsv"))))
    assert "empty.tsv has no rows: give" in message


@pytest.mark.parametrize("score", ["5.5", "-1", "nan"])
def test_scores_out_of_range(error_message, tmp_path, score):
    file = tmp_path / "scores.tsv"
    file.write_text(f"sentence1\tsentence2\tscore\n가\t나\t3\n가\t나\t{score}\n", encoding="utf-8")
    assert "scores.tsv, line 3: " in error_message(KosbertError, **stages(("data", str(file))))


@pytest.mark.parametrize("score", [5.5, -1, float("nan")])
def test_scores_out_of_range_in_records(score):
    rows = Columns.from_records([ScoredPair("가", "나", 3), ScoredPair("가", "나", score)])
    with pytest.raises(UsageError, match=r"^stage x: scores must lie between 0 and 5: rescale the column$"):
        to_columns(rows, "scored pairs", "stage x")


def nli_file(directory, *labels):
    file = directory / "nli.tsv"
    rows = "".join(f"가\t나\t{label}\n" for label in labels)
    file.write_text(f"sentence1\tsentence2\tlabel\n{rows}", encoding="utf-8")
    return ("data", str(file)), ("loss", "softmax")


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (("neutral", "neutral"), "every row has the label neutral: classification needs rows of two or more classes"),
        (("neutral", "entailed"), "the labels are entailed, neutral: NLI needs entailment, neutral, contradiction"),
        (("-", "-"), "choose data and a loss that fit"),
    ],
)
def test_wrong_labels(error_message, tmp_path, labels, message):
    text_of_error = error_message(**stages(*nli_file(tmp_path, *labels)))
    assert message in text_of_error
    assert text_of_error.startswith("stage second, data ")


@pytest.mark.parametrize(
    ("data", "loss_fn", "message"),
    [
        ("nli", "cosine-similarity", "stage second, data nli has LabeledPair rows, which give no scored pairs"),
        ("sts", "softmax", "has ScoredPair rows, which give no labeled pairs"),
        ("sts", "triplet", "has ScoredPair rows, which give no triplets"),
        ("sts", "multiple-negatives-ranking", "has ScoredPair rows, which give no pairs"),
    ],
)
def test_data_that_does_not_fit_the_loss(error_message, data, loss_fn, message):
    assert message in error_message(**stages(("data", data), ("loss", loss_fn)))


def test_wrong_options(error_message):
    assert "has no option 'temprature': did you mean temperature?" in error_message(
        **stages(("data", "nli"), ("loss", "multiple-negatives-ranking"), ("options", {"temprature": 1}))
    )
    assert error_message(
        **stages(("data", "nli"), ("loss", "multiple-negatives-ranking"), ("options", {"temperature": "cold"}))
    ).startswith("stage second: an option of multiple-negatives-ranking has a wrong value")
    assert "temperature must be above 0" in error_message(
        **stages(("data", "nli"), ("loss", "multiple-negatives-ranking"), ("options", {"temperature": 0}))
    )


def test_a_teacher_belongs_to_distillation(error_message):
    for mistake in ({"loss": "distillation"}, {"teacher": "builtin"}):
        assert "distillation needs a teacher" in error_message(**stages(("data", {"rows": "sts", **mistake})))
    for mistake in ({"augment": 1}, {"same_batch": True}, {"translations": "sts"}):
        assert "are for distillation only" in error_message(**stages(("data", {"rows": "sts", **mistake})))


@pytest.mark.parametrize("key", ["dev", "test"])
def test_dev_and_test_need_scored_pairs(error_message, files, key):
    assert "nli.tsv has no scored pairs to evaluate on: name an STS set" in error_message(
        **{key: str(files / "nli.tsv")}
    )


def test_wrong_backbone_options(error_message):
    backbone = {"text": "sts", "layers": 1, "hidden_size": 33, "heads": 2}
    assert "hidden_size 33 cannot be divided among 2 heads" in error_message(backbone=backbone)
    assert "at most 64 tokens" in error_message(max_length=100)


def test_more_layers_than_the_backbone_has(error_message, tiny_bert):
    assert "has 2 layers: give from 0 to 2" in error_message(backbone={"from": str(tiny_bert), "layers": 3})


def test_an_unusable_output_directory(error_message, tmp_path):
    (tmp_path / "file").write_text("here", encoding="utf-8")
    assert "cannot be written (File exists): choose another --out" in error_message(out=tmp_path / "file")
    assert "cannot be written (Not a directory)" in error_message(out=tmp_path / "file" / "below")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("mine", encoding="utf-8")
    assert "is not empty and not a run directory: choose another --out" in error_message(out=tmp_path / "other")
    (tmp_path / "damaged" / "checkpoints").mkdir(parents=True)
    (tmp_path / "damaged" / "recipe.json").write_text("{", encoding="utf-8")
    assert "recipe.json is damaged: choose another --out" in error_message(out=tmp_path / "damaged")


def test_a_failed_start_does_not_block_the_next_one(error_message, document, tmp_path, monkeypatch):
    """After a usage error the corrected recipe trains into the same directory without --resume."""
    error_message(dev="korsts-tran")
    (tmp_path / "run" / ".recipe.json-half").write_text("{", encoding="utf-8")
    (tmp_path / "run" / "recipe.json").unlink()
    monkeypatch.undo()
    assert train(Recipe.parse(document), tmp_path / "run").path.is_dir()
    assert not (tmp_path / "run" / ".recipe.json-half").exists()


@pytest.mark.parametrize("option", [{"triplets": "random"}, {"both_directions": True}])
@pytest.mark.parametrize(
    ("rows", "loss"), [("nli", "softmax"), ("nli", "simcse"), ("sts", "multiple-negatives-ranking")]
)
def test_options_of_nli_triplets_with_other_data(error_message, option, rows, loss):
    message = error_message(**stages(("data", {"rows": rows, **option}), ("loss", loss)))
    assert "triplets and both_directions are for NLI rows and a loss on pairs or triplets: drop them" in message


def test_no_duplicates_with_group_by_length(document):
    message = "no_duplicates and group_by_length exclude each other: set one of them to false"
    with pytest.raises(UsageError, match=message):
        Recipe.parse(document | {"train": {"no_duplicates": True, "group_by_length": True}})
    overridden = stages(("train", {"no_duplicates": True}))
    with pytest.raises(UsageError, match=message):
        Recipe.parse(document | overridden | {"train": {"group_by_length": True}})
