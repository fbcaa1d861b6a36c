"""Data of a stage: filters, teacher embeddings, neighbors, shared losses, sentence ids."""

from pathlib import Path

import numpy as np
import pytest
import torch

from kosbert.errors import UsageError
from kosbert.losses.features import sentence_ids
from kosbert.model import load, unpack
from kosbert.model.torch_loading import load_torch
from kosbert.training import Recipe, train
from kosbert.training.datasets import DataModule
from kosbert.training.distillation import combined_embeddings
from kosbert.training.loop import make_sampler


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("KOSBERT_CACHE", str(tmp_path / "cache"))


def columns(document, source, loss_fn="cosine-similarity"):
    stage = {"name": "only", "data": source, "loss": loss_fn, "epochs": 1}
    recipe = Recipe.parse(document | {"stages": [stage]})
    return DataModule(recipe, None)._columns_of(recipe.stages[0].data[0], recipe.stages[0]).texts


def test_min_chars_and_max_chars_filter_rows(document, files):
    all_columns = columns(document, str(files / "sts.tsv"))
    lengths = sorted({len(text) for column in all_columns for text in column})
    min_chars, max_chars = lengths[1], lengths[-2]
    filtered = columns(document, {"rows": str(files / "sts.tsv"), "min_chars": min_chars, "max_chars": max_chars})
    assert 0 < len(filtered[0]) < len(all_columns[0])
    assert all(min_chars <= len(text) <= max_chars for column in filtered for text in column)
    inside = [
        pair for pair in zip(*all_columns, strict=True) if all(min_chars <= len(text) <= max_chars for text in pair)
    ]
    assert list(zip(*filtered, strict=True)) == inside


def test_encoding_of_a_file(document, tmp_path):
    path = tmp_path / "pairs.csv"
    path.write_bytes("sentence1,sentence2,score\n비,눈,1\n해,달,2\n".encode("utf-16-le"))
    assert list(columns(document, {"rows": str(path), "encoding": "utf-16-le"})[0]) == ["비", "해"]
    with pytest.raises(UsageError, match="there is no encoding 'cp950x'"):
        columns(document, {"rows": str(path), "encoding": "cp950x"})
    with pytest.raises(UsageError, match="has no sheets"):
        columns(document, {"rows": str(path), "sheet": "x"})


def test_exclude_drops_rows_that_share_a_sentence(document, files, tmp_path):
    first, second = (column[:2] for column in columns(document, str(files / "sts.tsv")))
    held_out = tmp_path / "held-out.txt"
    held_out.write_text(f"{first[0].replace(' ', '  ')}!\n{second[1]}\n", encoding="utf-8")
    left = columns(document, {"rows": str(files / "sts.tsv"), "exclude": str(held_out)})
    texts = {text for column in left for text in column}
    assert len(left[0]) < 40
    assert first[0] not in texts
    assert second[1] not in texts
    all_columns = tmp_path / "everything.txt"
    all_columns.write_text(
        "\n".join(text for column in columns(document, str(files / "sts.tsv")) for text in column), encoding="utf-8"
    )
    with pytest.raises(UsageError, match="has no rows"):
        columns(document, {"rows": str(files / "sts.tsv"), "exclude": str(all_columns)})


def test_exclude_drops_whole_paraphrase_groups(document, tmp_path):
    groups = Path(tmp_path / "groups.tsv")
    groups.write_text("text\tlabel\n비가 온다\t1\n비 온다\t1\n비 내린다\t1\n춥다\t2\n추워\t2\n", encoding="utf-8")
    held_out = tmp_path / "held-out.txt"
    held_out.write_text("비 온다.\n", encoding="utf-8")
    source = {"rows": str(groups), "exclude": str(held_out)}
    assert columns(document, source, "multiple-negatives-ranking") == (("춥다",), ("추워",))
    assert columns(document, source, "simcse") == (("비가 온다", "비 내린다", "춥다", "추워"),)


def test_triplets_of_the_published_experiments(document, tmp_path, tiny_bert):
    """One random triplet per anchor in both directions, and batches without repeated texts."""
    nli = tmp_path / "nli.tsv"
    rows = [
        f"전제{number}\t{label}{number}-{copy}\t{label}"
        for number in range(12)
        for copy in range(2)
        for label in ("entailment", "contradiction")
    ]
    nli.write_text("sentence1\tsentence2\tlabel\n" + "\n".join(rows), encoding="utf-8")
    loss = "multiple-negatives-ranking"
    source = {"rows": str(nli), "triplets": "random", "both_directions": True}
    anchors, positives, negatives = columns(document, source, loss)
    assert len(anchors) == 24  # of 12 premises; no hypothesis has both an entailment and a contradiction
    assert (anchors[::2], positives[::2]) == (positives[1::2], anchors[1::2])
    assert negatives[::2] == negatives[1::2]
    assert columns(document, source, loss) == (anchors, positives, negatives)
    assert columns(document | {"seed": 1}, source, loss) != (anchors, positives, negatives)
    assert columns(document, {"rows": str(nli), "triplets": "last"}, loss) == (
        tuple(f"전제{number}" for number in range(12)),
        tuple(f"entailment{number}-1" for number in range(12)),
        tuple(f"contradiction{number}-1" for number in range(12)),
    )
    stage = {"name": "only", "data": source, "loss": loss, "epochs": 1}
    recipe = Recipe.parse(document | {"stages": [stage], "train": {"batch_size": 4, "no_duplicates": True}})
    model = load_torch(tiny_bert).sentence_transformer
    datasets = DataModule(recipe, None).train_datasets(recipe.stages[0], model)
    batches = list(make_sampler(model, datasets, recipe.train, 0, epochs=1).from_step(0))
    assert [len(batch.rows) for batch in batches] == [4] * 6
    for batch in batches:
        texts = [int(column[row]) for column in datasets[0].columns for row in batch.rows]
        assert len(set(texts)) == 12


def teacher_labels(document, source, tiny_bert):
    stage = {"name": "teach", "data": source | {"teacher": str(tiny_bert)}, "loss": "distillation", "epochs": 1}
    recipe = Recipe.parse(document | {"stages": [stage]})
    (dataset,) = DataModule(recipe, None).train_datasets(recipe.stages[0], load_torch(tiny_bert).sentence_transformer)
    return dataset.labels


def test_same_batch_and_augment_give_columns_for_all_sentences(document, files, tiny_bert):
    source = {"rows": str(files / "sts.tsv"), "same_batch": True, "augment": 2}
    labels = teacher_labels(document, source, tiny_bert)
    first, second = columns(document, str(files / "sts.tsv"))
    encoder = load_torch(tiny_bert)
    assert labels.shape == (40, 4, encoder.dim)
    np.testing.assert_allclose(labels[:, 0], encoder.encode(first), atol=2e-3)
    np.testing.assert_allclose(labels[:, 1], encoder.encode(second), atol=2e-3)
    assert np.abs(labels[:, 2] - labels[:, 0]).max() > 0.01


def test_the_teacher_encodes_each_distinct_sentence_once(document, files, tiny_bert, tmp_path, monkeypatch):
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("sentence1\tsentence2\tscore\n비\t눈\t1\n비\t책\t2\n눈\t비\t3\n", encoding="utf-8")
    read = []

    def counting(teachers, sentences, reading=None):
        read.append(list(sentences))
        return combined_embeddings(teachers, sentences, reading)

    monkeypatch.setattr("kosbert.training.datasets.combined_embeddings", counting)
    rain, snow, book = load_torch(tiny_bert).encode(["비", "눈", "책"])
    labels = teacher_labels(document, {"rows": str(pairs), "same_batch": True}, tiny_bert)
    np.testing.assert_allclose(labels, [[rain, snow], [rain, book], [snow, rain]], atol=2e-3)
    assert all(texts == ["비", "눈", "책"] for texts in read)
    read.clear()
    source = {"rows": str(files / "text.txt"), "translations": str(english := tmp_path / "english.txt")}
    count = len((files / "text.txt").read_text(encoding="utf-8").splitlines())
    english.write_text("비\n" * count, encoding="utf-8")  # two sentences may have one translation
    np.testing.assert_allclose(teacher_labels(document, source, tiny_bert), [rain] * count, atol=2e-3)
    assert all(texts == ["비"] for texts in read)


def test_nearest_neighbors_become_columns(document, files, tiny_bert):
    stage = {
        "name": "teach",
        "data": {"rows": str(files / "text.txt"), "teacher": str(tiny_bert), "nearest_neighbors": 2},
        "loss": "distillation",
        "epochs": 1,
    }
    recipe = Recipe.parse(document | {"stages": [stage]})
    encoder = load_torch(tiny_bert)
    (dataset,) = DataModule(recipe, None).train_datasets(recipe.stages[0], encoder.sentence_transformer)
    texts = list(dict.fromkeys((files / "text.txt").read_text(encoding="utf-8").splitlines()))
    vectors = encoder.encode(texts, normalize_embeddings=True)
    cosines = vectors @ vectors.T - 2 * np.eye(len(texts))
    np.testing.assert_array_equal(dataset.columns[0], np.arange(len(texts)))  # sentences in their order
    np.testing.assert_array_equal(np.column_stack(dataset.columns[1:]), np.argsort(-cosines, axis=1)[:, :2])
    assert dataset.labels.shape == (len(texts), 3, encoder.dim)
    for column, labels in zip(dataset.columns, dataset.labels.swapaxes(0, 1).astype(np.float32), strict=True):
        np.testing.assert_allclose(labels / np.linalg.norm(labels, axis=1, keepdims=True), vectors[column], atol=2e-3)


def test_too_many_neighbors_are_a_usage_error(document, tmp_path, tiny_bert):
    (tmp_path / "two.txt").write_text("비가 온다\n눈이 온다\n", encoding="utf-8")
    with pytest.raises(UsageError, match="2 sentences do not have 2 neighbors each: lower nearest_neighbors"):
        teacher_labels(document, {"rows": str(tmp_path / "two.txt"), "nearest_neighbors": 2}, tiny_bert)
    with pytest.raises(UsageError, match="nearest_neighbors cannot be combined"):
        teacher_labels(document, {"rows": str(tmp_path / "two.txt"), "nearest_neighbors": 1, "augment": 1}, tiny_bert)


def test_several_teachers_give_the_weighted_mean_of_their_cosines(document, files, tiny_bert):
    source = {"rows": str(files / "text.txt")}
    stage = {"name": "teach", "data": source, "loss": "distillation", "epochs": 1}
    stage["data"] = source | {"teacher": {str(tiny_bert): 3, "builtin": 1}}
    recipe = Recipe.parse(document | {"stages": [stage]})
    (dataset,) = DataModule(recipe, None).train_datasets(recipe.stages[0], load_torch(tiny_bert).sentence_transformer)
    texts = list(dict.fromkeys((files / "text.txt").read_text(encoding="utf-8").splitlines()))
    first, second = (load(name).encode(texts, normalize_embeddings=True) for name in (tiny_bert, "builtin"))
    joint = dataset.labels.astype(np.float32)
    joint /= np.linalg.norm(joint, axis=1, keepdims=True)
    np.testing.assert_allclose(joint @ joint.T, 0.75 * first @ first.T + 0.25 * second @ second.T, atol=3e-3)


def test_the_teacher_encodes_the_translation(document, files, tiny_bert, tmp_path):
    texts = (files / "text.txt").read_text(encoding="utf-8").splitlines()
    english = tmp_path / "english.txt"
    english.write_text("\n".join(f"sentence {number}" for number in range(len(texts))), encoding="utf-8")
    source = {"rows": str(files / "text.txt"), "translations": str(english), "max_chars": 25}
    kept = [number for number, text in enumerate(texts) if len(text) <= 25]
    expected = load_torch(tiny_bert).encode([f"sentence {number}" for number in kept])
    np.testing.assert_allclose(teacher_labels(document, source, tiny_bert), expected, atol=2e-3)
    stage = {"name": "teach", "data": source | {"teacher": str(tiny_bert)}, "loss": "distillation", "epochs": 1}
    recipe = Recipe.parse(document | {"stages": [stage]})
    data_module = DataModule(recipe, None)
    data_module.check(load_torch(tiny_bert).sentence_transformer)
    fingerprints = dict(data_module.fingerprints)  # compared when a run resumes
    data_module.train_datasets(recipe.stages[0], load_torch(tiny_bert).sentence_transformer)
    assert data_module.fingerprints == fingerprints
    english.write_text("too few", encoding="utf-8")
    with pytest.raises(UsageError, match="translations must be the same rows in the same order"):
        teacher_labels(document, source, tiny_bert)


def test_sources_with_one_teacher_share_the_projection_and_resume_exactly(document, files, tiny_bert, tmp_path):
    teacher = str(tiny_bert)
    sources = [
        {"rows": str(files / "text.txt"), "teacher": teacher, "max_chars": 25},
        {"rows": str(files / "text.txt"), "teacher": teacher, "min_chars": 26},
    ]
    stage = {
        "name": "teach",
        "data": sources,
        "loss": "distillation",
        "options": {"projection": True},
        "epochs": 2,
    }
    recipe = Recipe.parse(document | {"stages": [stage]})
    first, second = DataModule(recipe, None).train_datasets(
        recipe.stages[0], load_torch(tiny_bert).sentence_transformer
    )
    assert first.loss is second.loss
    different_sources = [sources[0], sources[1] | {"options": {"weight": 2}}]
    different_options = Recipe.parse(document | {"stages": [stage | {"data": different_sources}]})
    first, second = DataModule(different_options, None).train_datasets(
        different_options.stages[0], load_torch(tiny_bert).sentence_transformer
    )
    assert first.loss is not second.loss

    uninterrupted = train(recipe, tmp_path / "whole", checkpoint_every=0)

    class Stop(Exception):
        pass

    def stop(event):
        if event.done == 5 and event.unit == "steps":
            raise Stop

    with pytest.raises(Stop):
        train(recipe, tmp_path / "stopped", checkpoint_every=0, on_progress=stop)
    resumed = train(recipe, tmp_path / "stopped", checkpoint_every=0, resume=True)
    assert resumed.scores == uninterrupted.scores
    assert resumed.curves == uninterrupted.curves


@pytest.mark.parametrize(
    ("loss", "options"),
    [
        ("multiple-negatives-ranking", {"symmetric": True}),
        ("multiple-negatives-ranking", {"gradcache": 5}),
        ("simcse-supervised", {"gradcache": 5}),
    ],
)
@pytest.mark.parametrize("packed", [True, False])
def test_carried_sentence_ids_give_the_loss_and_gradients_of_hashed_tokens(
    document, files, tiny_bert, loss, options, packed, monkeypatch
):
    """NLI repeats its premises, so ids decide which candidates are negatives."""
    stage = {"name": "only", "data": str(files / "nli.tsv"), "loss": loss, "options": options, "epochs": 1}
    recipe = Recipe.parse(document | {"stages": [stage]})
    model = load_torch(tiny_bert).sentence_transformer.eval()
    if not packed:
        unpack(model)
    (dataset,) = DataModule(recipe, None).train_datasets(recipe.stages[0], model)
    features = dataset.features(np.arange(12) % 9)  # with repeated rows
    assert ("cu_seq_lens_q" in features[0]) == packed
    hashed = [{key: value for key, value in column.items() if key != "sentence_ids"} for column in features]
    for column, without_ids in zip(features, hashed, strict=True):
        assert torch.equal(column["sentence_ids"], sentence_ids(without_ids))

    def loss_and_gradients(columns):
        dataset.loss.zero_grad()
        value = dataset.loss(columns)
        value.backward()
        return value, [p.grad.clone() for p in dataset.loss.parameters() if p.grad is not None]

    expected, expected_gradients = loss_and_gradients(hashed)
    monkeypatch.setattr("kosbert.losses.features.hash_sentences", None)  # our trainer hashes nothing per step
    value, gradients = loss_and_gradients(features)
    assert torch.equal(value, expected)
    assert all(torch.equal(*pair) for pair in zip(gradients, expected_gradients, strict=True))
