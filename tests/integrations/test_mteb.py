"""The MTEB adapter with the real package, offline, on a small task."""

import pytest

from kosbert import data
from kosbert.errors import UsageError
from kosbert.evaluation.sts import score_pairs
from kosbert.model import load_any

mteb = pytest.importorskip("mteb", reason="MTEB is not installed: pip install 'kosbert[mteb]'")

from kosbert.integrations.mteb import MtebEncoder, korean_tasks  # noqa: E402


def test_mteb_score_equals_our_score() -> None:
    from datasets import Dataset, DatasetDict
    from mteb.mocks.mock_tasks.sts import MockSTSTask

    pairs = data.load("sample-sts-dev")[:60]

    class SampleSts(MockSTSTask):
        min_score, max_score = 0, 5

        def load_data(self, **_: object) -> None:
            columns = {
                "sentence1": [pair.sentence1 for pair in pairs],
                "sentence2": [pair.sentence2 for pair in pairs],
                "score": [pair.score for pair in pairs],
            }
            self.dataset = DatasetDict({"test": Dataset.from_dict(columns)})
            self.data_loaded = True

    model = load_any("random-words")
    results = mteb.evaluate(MtebEncoder(model, "kosbert/words"), SampleSts(), cache=None, show_progress_bar=False)
    scores = results.task_results[0].scores["test"][0]
    expected = score_pairs(model, pairs)
    assert scores["cosine_spearman"] == pytest.approx(expected["spearman"], abs=1e-5)
    assert scores["cosine_pearson"] == pytest.approx(expected["pearson"], abs=1e-5)
    assert results.model_name == "kosbert/words"


def test_korean_tasks_include_korsts_and_klue() -> None:
    names = {task.metadata.name for task in korean_tasks()}
    assert {"KLUE-STS", "KorSTS"} <= names


def test_name_without_organization_is_an_error() -> None:
    with pytest.raises(UsageError, match="organization/model"):
        MtebEncoder(load_any("random"), "local")
