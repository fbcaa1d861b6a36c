"""Published figures: as their documents print them, with averages that fit, each with a source and a caveat."""

import numpy as np
import pytest

from kosbert.data.registry import resolve
from kosbert.evaluation.published_scores import all_published_scores, published_scores
from kosbert.evaluation.sts import CORRELATIONS

SEVEN = ("sts12", "sts13", "sts14", "sts15", "sts16", "stsb-test", "sick-r")


def published(dataset: str, measure: str = "cosine_spearman") -> dict[str, float]:
    return {each.model: each.value for each in published_scores(dataset, measure)}


def test_the_orders_of_training_data() -> None:
    prefix = "SBERT klue/roberta-base, "
    expected = {
        "STS only": (0.816, 0.814),
        "NLI only": (0.827, 0.838),
        "STS→NLI": (0.838, 0.849),
        "NLI→STS": (0.849, 0.855),
    }
    pearson, spearman = published("korsts-test", "cosine_pearson"), published("korsts-test")
    assert {name: (pearson[prefix + name], spearman[prefix + name]) for name in expected} == expected


def test_simcse_in_korean() -> None:
    expected = {
        "SimCSE-BERT-KO (unsup)": 0.7285,
        "SimCSE-BERT-KO (sup)": 0.8598,
        "SimCSE-RoBERTa-KO (unsup)": 0.7579,
        "SimCSE-RoBERTa-KO (sup)": 0.8306,
    }
    assert published("korsts-test", "average") == expected
    for dataset in ("korsts-test", "klue-sts-dev"):
        for model, average in published(dataset, "average").items():
            eight = [published(dataset, measure)[model] for measure in CORRELATIONS]
            assert np.mean(eight) == pytest.approx(average, abs=0.0001)


def test_models_for_scale() -> None:
    found = published("korsts-test")
    assert found["multilingual-e5-small"] == 0.7707
    assert found["paraphrase-multilingual-MiniLM-L12-v2"] == 0.7442
    assert found["LaBSE"] == 0.7058


@pytest.mark.parametrize(
    ("average", "measure", "datasets"),
    [
        ("sts-average", "cosine_spearman", SEVEN),
        ("senteval-average", "accuracy", ("mr", "cr", "subj", "mpqa", "sst", "trec", "mrpc")),
    ],
)
def test_averages_of_the_paper_fit_its_columns(average, measure, datasets) -> None:
    rows = published(average, measure)
    assert len(rows) >= 8
    for model, value in rows.items():
        expected = np.mean([published(dataset, measure)[model] for dataset in datasets])
        # The paper's own slip, which the caveat names.
        slip = 3e-4 if (model, average) == ("SBERT-NLI-base", "sts-average") else 0
        assert value - slip == pytest.approx(expected, abs=6e-5), model


def test_the_slip_of_the_paper_is_named() -> None:
    (row,) = (each for each in published_scores("sts-average") if each.model == "SBERT-NLI-base")
    assert "74.86" in row.caveat


def test_known_cells_of_the_paper() -> None:
    assert published("sts16")["SBERT-NLI-base"] == 0.7430
    (supervised,) = (each for each in published_scores("stsb-test") if each.model == "SBERT-NLI-STSb-base")
    assert (supervised.value, supervised.deviation) == (0.8535, 0.0017)
    assert published("trec", "accuracy")["Universal Sentence Encoder"] == 0.932
    assert published("stsb-dev")["STSb, pooling MAX"] == 0.6992
    assert published("stsb-dev")["NLI, (u, v, |u-v|)"] == published("stsb-dev")["NLI, pooling MEAN"] == 0.8078
    speed = published("speed", "cpu_sentences_per_second")
    assert (speed["SBERT-base"], speed["SBERT-base - smart batching"]) == (44, 83)


def test_every_anchor_is_complete() -> None:
    seen = set()
    for each in all_published_scores():
        assert each.source
        assert each.address.startswith("https://")
        assert each.caveat.endswith(".")
        assert each.measure.endswith("per_second") or -1 <= each.value <= 1
        if each.dataset not in ("speed", "sts-average", "senteval-average"):
            known, split = resolve(each.dataset)
            assert each.dataset == f"{known.name}-{split}"
        key = (each.dataset, each.model, each.measure, each.source)
        assert key not in seen
        seen.add(key)


def test_names_of_sets() -> None:
    assert published_scores("korsts") == published_scores("korsts-test") != []
    assert published_scores("sick-r") == published_scores("sick-r-all") != []
    assert published_scores("korsts-train") == published_scores("my/own.tsv") == []
