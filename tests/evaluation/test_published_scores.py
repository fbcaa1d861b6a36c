"""Published scores: as printed in their sources, with consistent averages, each with a source and a caveat."""

import numpy as np
import pytest

from kosbert.data.registry import resolve
from kosbert.evaluation.published_scores import all_published_scores, published_scores
from kosbert.evaluation.sts import CORRELATIONS

STS_DATASETS = ("sts12", "sts13", "sts14", "sts15", "sts16", "stsb-test", "sick-r")


def scores_by_model(dataset: str, metric: str = "cosine_spearman") -> dict[str, float]:
    return {score.model: score.value for score in published_scores(dataset, metric)}


def test_scores_of_the_order_of_training_data() -> None:
    prefix = "SBERT klue/roberta-base, "
    expected = {
        "STS only": (0.816, 0.814),
        "NLI only": (0.827, 0.838),
        "STS→NLI": (0.838, 0.849),
        "NLI→STS": (0.849, 0.855),
    }
    pearson, spearman = scores_by_model("korsts-test", "cosine_pearson"), scores_by_model("korsts-test")
    assert {name: (pearson[prefix + name], spearman[prefix + name]) for name in expected} == expected


def test_dev_scores_of_the_order_of_training_data_by_epoch() -> None:
    scores = {score.model.partition(", ")[2]: score for score in published_scores("korsts-dev", "cosine_spearman")}
    assert {name: score.by_epoch for name, score in scores.items()} == {
        "STS only": (0.8573, 0.8652, 0.8651, 0.8661),
        "NLI only": (0.8555,),
        "STS→NLI": (0.8644,),
        "NLI→STS": (0.8686, 0.8751, 0.8776, 0.8780),
    }
    assert all(score.value == max(score.by_epoch) == score.by_epoch[-1] for score in scores.values())


def test_caveats_name_the_mistakes_of_simcse_in_korean() -> None:
    for dataset in ("korsts-test", "klue-sts-dev"):
        for score in published_scores(dataset, "average"):
            assert all(word in score.caveat for word in ("Pearson", "commas", "zero in every second step"))


def test_scores_of_simcse_in_korean() -> None:
    expected = {
        "SimCSE-BERT-KO (unsup)": 0.7285,
        "SimCSE-BERT-KO (sup)": 0.8598,
        "SimCSE-RoBERTa-KO (unsup)": 0.7579,
        "SimCSE-RoBERTa-KO (sup)": 0.8306,
    }
    assert scores_by_model("korsts-test", "average") == expected
    for dataset in ("korsts-test", "klue-sts-dev"):
        for model, average in scores_by_model(dataset, "average").items():
            correlations = [scores_by_model(dataset, metric)[model] for metric in CORRELATIONS]
            assert np.mean(correlations) == pytest.approx(average, abs=0.0001)


def test_scores_of_multilingual_models() -> None:
    scores = scores_by_model("korsts-test")
    assert scores["multilingual-e5-small"] == 0.7707
    assert scores["paraphrase-multilingual-MiniLM-L12-v2"] == 0.7442
    assert scores["LaBSE"] == 0.7058


@pytest.mark.parametrize(
    ("average", "metric", "datasets"),
    [
        ("sts-average", "cosine_spearman", STS_DATASETS),
        ("senteval-average", "accuracy", ("mr", "cr", "subj", "mpqa", "sst", "trec", "mrpc")),
    ],
)
def test_published_averages_fit_their_columns(average, metric, datasets) -> None:
    averages = scores_by_model(average, metric)
    assert len(averages) >= 8
    for model, value in averages.items():
        expected = np.mean([scores_by_model(dataset, metric)[model] for dataset in datasets])
        # A mistake in the paper, named in the caveat.
        mistake = 3e-4 if (model, average) == ("SBERT-NLI-base", "sts-average") else 0
        assert value - mistake == pytest.approx(expected, abs=6e-5), model


def test_caveat_names_the_mistake_of_the_paper() -> None:
    (score,) = (score for score in published_scores("sts-average") if score.model == "SBERT-NLI-base")
    assert "74.86" in score.caveat


def test_scores_of_the_sentence_bert_paper() -> None:
    assert scores_by_model("sts16")["SBERT-NLI-base"] == 0.7430
    (supervised,) = (score for score in published_scores("stsb-test") if score.model == "SBERT-NLI-STSb-base")
    assert (supervised.value, supervised.std) == (0.8535, 0.0017)
    assert scores_by_model("trec", "accuracy")["Universal Sentence Encoder"] == 0.932
    assert scores_by_model("stsb-dev")["STSb, pooling MAX"] == 0.6992
    assert (
        scores_by_model("stsb-dev")["NLI, (u, v, |u-v|)"] == scores_by_model("stsb-dev")["NLI, pooling MEAN"] == 0.8078
    )
    speed = scores_by_model("speed", "cpu_sentences_per_second")
    assert (speed["SBERT-base"], speed["SBERT-base - smart batching"]) == (44, 83)


def test_every_score_is_complete_and_unique() -> None:
    seen = set()
    for score in all_published_scores():
        assert score.source
        assert score.url.startswith("https://")
        assert score.caveat.endswith(".")
        assert score.metric.endswith("per_second") or -1 <= score.value <= 1
        if score.dataset not in ("speed", "sts-average", "senteval-average"):
            dataset, split = resolve(score.dataset)
            assert score.dataset == f"{dataset.name}-{split}"
        key = (score.dataset, score.model, score.metric, score.source)
        assert key not in seen
        seen.add(key)


def test_dataset_name_means_its_default_split() -> None:
    assert published_scores("korsts") == published_scores("korsts-test") != []
    assert published_scores("sick-r") == published_scores("sick-r-all") != []
    assert published_scores("korsts-train") == published_scores("my/own.tsv") == []
