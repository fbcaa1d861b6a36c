"""A user's mistake is one sentence with the fix, said before anything is trained."""

import pytest

from kosbert.data.records import ScoredPair
from kosbert.errors import KosbertError, UsageError
from kosbert.training import Recipe, train, trainer
from kosbert.training.columns import to_columns


@pytest.fixture
def said(document, tmp_path, monkeypatch):
    """A function that trains a changed recipe and returns what it said; no step may be taken."""
    monkeypatch.setattr(trainer, "run_stage", None)

    def about(error=UsageError, out=None, **changes):
        with pytest.raises(error) as caught:
            train(Recipe.parse(document | changes), out or tmp_path / "run")
        assert "\n" not in str(caught.value)
        assert type(caught.value) is error
        return str(caught.value)

    return about


def stages(*last):
    """A right stage, then one with a mistake: it must be found before the first is trained."""
    first = {"name": "first", "data": "sts", "loss": "cosine-similarity", "epochs": 1}
    return {"stages": [first, {"name": "second", "data": "sts", "loss": "cosine-similarity", "epochs": 1} | dict(last)]}


def test_a_hub_name_without_network(said):
    assert "klue/nothing is neither a directory nor in the cache" in said(KosbertError, backbone="klue/nothing")


def test_a_missing_directory(said, tmp_path):
    assert "give a directory" in said(UsageError, backbone=str(tmp_path / "no" / "model"))


def test_unknown_role_and_data_set(said):
    message = said(**stages(("data", "nil")))
    assert message.startswith("there is no role, data set or file 'nil': did you mean nli")
    assert "'korsts-tran': did you mean korsts-train" in said(dev="korsts-tran")


def test_a_missing_file(said):
    assert said(**stages(("data", "missing.tsv"))) == "missing.tsv does not exist: check the path"


@pytest.mark.parametrize("text", ["", "sentence1\tsentence2\tscore\n"])
def test_an_empty_file(said, tmp_path, text):
    (tmp_path / "empty.tsv").write_text(text, encoding="utf-8")
    assert "empty.tsv has no rows: give" in said(**stages(("data", str(tmp_path / "empty.tsv"))))


@pytest.mark.parametrize("score", ["5.5", "-1", "nan"])
def test_scores_out_of_range(said, tmp_path, score):
    file = tmp_path / "scores.tsv"
    file.write_text(f"sentence1\tsentence2\tscore\n가\t나\t3\n가\t나\t{score}\n", encoding="utf-8")
    assert "scores.tsv, line 3: " in said(KosbertError, **stages(("data", str(file))))


@pytest.mark.parametrize("score", [5.5, -1, float("nan")])
def test_scores_out_of_range_that_no_file_gave(score):
    with pytest.raises(UsageError, match=r"^here: scores must lie between 0 and 5: rescale the column$"):
        to_columns([ScoredPair("가", "나", 3), ScoredPair("가", "나", score)], "scored pairs", "here")


def nli_file(folder, *labels):
    file = folder / "nli.tsv"
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
def test_labels_that_do_not_do(said, tmp_path, labels, message):
    said_now = said(**stages(*nli_file(tmp_path, *labels)))
    assert message in said_now
    assert said_now.startswith("stage second, data ")


@pytest.mark.parametrize(
    ("data", "loss_fn", "message"),
    [
        ("nli", "cosine-similarity", "stage second, data nli has LabeledPair rows, which give no scored pairs"),
        ("sts", "softmax", "has ScoredPair rows, which give no labeled pairs"),
        ("sts", "triplet", "has ScoredPair rows, which give no triplets"),
        ("sts", "multiple-negatives-ranking", "has ScoredPair rows, which give no pairs"),
    ],
)
def test_data_that_does_not_fit_the_objective(said, data, loss_fn, message):
    assert message in said(**stages(("data", data), ("loss", loss_fn)))


def test_options(said):
    assert "has no option 'temprature': did you mean temperature?" in said(
        **stages(("data", "nli"), ("loss", "multiple-negatives-ranking"), ("options", {"temprature": 1}))
    )
    assert said(
        **stages(("data", "nli"), ("loss", "multiple-negatives-ranking"), ("options", {"temperature": "cold"}))
    ).startswith("stage second: an option of multiple-negatives-ranking has a wrong value")
    assert "temperature must be above 0" in said(
        **stages(("data", "nli"), ("loss", "multiple-negatives-ranking"), ("options", {"temperature": 0}))
    )


def test_a_teacher_belongs_to_distillation(said):
    for mistake in ({"loss": "distillation"}, {"teacher": "builtin"}):
        assert "distillation needs a teacher" in said(**stages(("data", {"rows": "sts", **mistake})))
    for mistake in ({"augment": 1}, {"same_batch": True}, {"translations": "sts"}):
        assert "are for distillation only" in said(**stages(("data", {"rows": "sts", **mistake})))


@pytest.mark.parametrize("key", ["dev", "test"])
def test_what_is_scored_must_have_scores(said, files, key):
    assert "nli.tsv has no scored pairs to evaluate on: name an STS set" in said(**{key: str(files / "nli.tsv")})


def test_backbones(said):
    backbone = {"text": "sts", "layers": 1, "hidden_size": 33, "heads": 2}
    assert "hidden_size 33 cannot be shared by 2 heads" in said(backbone=backbone)
    assert "at most 64 tokens" in said(max_length=100)


def test_fewer_layers_than_asked_for(said, tiny_bert):
    assert "has 2 layers: give from 0 to 2" in said(backbone={"from": str(tiny_bert), "layers": 3})


def test_an_output_that_cannot_be_used(said, tmp_path):
    (tmp_path / "file").write_text("here", encoding="utf-8")
    assert "cannot be written (File exists): choose another --out" in said(out=tmp_path / "file")
    assert "cannot be written (Not a directory)" in said(out=tmp_path / "file" / "below")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("mine", encoding="utf-8")
    assert "is not empty and not a run directory: choose another --out" in said(out=tmp_path / "other")
    (tmp_path / "damaged" / "checkpoints").mkdir(parents=True)
    (tmp_path / "damaged" / "recipe.json").write_text("{", encoding="utf-8")
    assert "recipe.json is damaged: choose another --out" in said(out=tmp_path / "damaged")


def test_a_mistake_leaves_nothing_that_is_in_the_way(said, document, tmp_path, monkeypatch):
    """The first try fails; the second, with the mistake put right, needs no other folder and no --resume."""
    said(dev="korsts-tran")
    (tmp_path / "run" / ".recipe.json-half").write_text("{", encoding="utf-8")
    (tmp_path / "run" / "recipe.json").unlink()
    monkeypatch.undo()
    assert train(Recipe.parse(document), tmp_path / "run").path.is_dir()
    assert not (tmp_path / "run" / ".recipe.json-half").exists()
