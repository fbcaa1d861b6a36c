"""The published experiment from a backbone on the hub to a report: `kosbert study order --preset paper`, shortened."""

import json
import sys

import pytest

from kosbert.cli import main
from kosbert.study.store import Store, stored_runs

COMMAND = [
    "kosbert", "study", "order", "--preset", "paper", "--limit", "32", "--set", "train.batch_size=8",
    "--set", "stages.sts.epochs=1", "--set", "max_length=32", "--set", "data.nli=sample-nli-train",
    "--set", "data.sts=sample-sts-train", "--set", "dev=sample-sts-dev", "--set", "test=sample-sts-test", "--json",
]  # fmt: skip


@pytest.mark.slow
def test_the_paper_preset_runs_on_a_hub_backbone(hub, repository_files, tmp_path, monkeypatch, capsys):
    commit = hub.add("klue/roberta-base", repository_files("klue/roberta-base"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", COMMAND)
    with pytest.raises(SystemExit) as end:
        main()
    assert not end.value.code
    summary = json.loads(capsys.readouterr().out)
    scores = summary["eval_sets"][0]["scores"]
    assert set(scores) == {"STS", "NLI", "STS→NLI", "NLI→STS"}
    assert all(variant["seeds"] == [777] for variant in scores.values())
    assert summary["provenance"]["backbone"] == {"name": "klue/roberta-base", "commit": commit}
    (study,) = Store(tmp_path / "studies").names()
    for run in stored_runs(tmp_path / "studies" / study):
        assert run.record["provenance"]["backbone"]["commit"] == commit
    report = (tmp_path / "studies" / study / "report.md").read_text(encoding="utf-8")
    assert commit in report
    assert "This is a shortened run" in report
