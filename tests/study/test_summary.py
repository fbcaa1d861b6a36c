"""The one-sentence answer calls a tie a tie."""

import pytest

from kosbert.study.summary import answer, standings, ties_of_the_best


def found(means, verdicts, sample=False, seeds=3):
    """A summary with the parts that an answer needs; verdicts by (first, second)."""
    rows = {row: {"spearman": {"mean": mean}, "seeds": list(range(seeds))} for row, mean in means.items()}
    compared = [
        {"first": a, "second": b, "difference": means[a] - means[b], "low": 0.0, "high": 0.0, "p": 0.5, "seeds": seeds,
         "verdict": verdict}
        for (a, b), verdict in verdicts.items()
    ]  # fmt: skip
    test = {"name": "korsts-test", "role": "test", "pairs": 1379, "rows": rows, "comparisons": compared}
    return {"sets": [test], "seeds": seeds, "planned": dict.fromkeys(means, seeds), "sample": sample}


def test_a_clear_winner():
    text = answer(found({"a": 0.80, "b": 0.85}, {("a", "b"): "second"}))
    assert text == (
        "b with 85.0, ahead of every other row, the next being a with 80.0 "
        "(Spearman on korsts-test, 1,379 pairs, 3 seeds)."
    )


def test_a_tie_of_two_with_both_ahead_of_the_rest():
    verdicts = {("a", "b"): "tie", ("a", "c"): "first", ("b", "c"): "first"}
    text = answer(found({"a": 0.85, "b": 0.849, "c": 0.7}, verdicts, sample=True, seeds=1))
    assert text == (
        "a (85.0) and b (84.9) are a tie (Spearman on korsts-test, 1,379 pairs, one seed), both ahead of c; "
        "the sample set proves nothing about Korean."
    )


def test_a_tie_that_does_not_carry_over():
    verdicts = {("a", "b"): "tie", ("a", "c"): "first", ("b", "c"): "tie"}
    data = found({"a": 0.85, "b": 0.84, "c": 0.83}, verdicts)
    assert ties_of_the_best(data) == ["a", "b"]
    assert answer(data).endswith("; a is ahead of c.")


def test_a_large_difference_that_is_not_settled_is_not_called_a_tie():
    text = answer(found({"a": 0.763, "b": 0.636}, {("a", "b"): "tie"}, seeds=3))
    assert (
        text
        == "a (76.3) and b (63.6) are not told apart (Spearman on korsts-test, 1,379 pairs, 3 seeds: too few to tell)."
    )


def test_seeds_that_did_not_finish_are_not_counted():
    data = found({"a": 0.8, "b": 0.7, "tfidf": 0.6}, {("a", "b"): "tie", ("a", "tfidf"): "first"}, seeds=5)
    data["planned"]["tfidf"] = 1
    rows = data["sets"][0]["rows"]
    rows["b"]["seeds"], rows["tfidf"]["seeds"] = [1, 2], [1]
    assert "1,379 pairs, 2 to 5 seeds" in answer(data)
    rows["a"]["seeds"] = rows["b"]["seeds"] = [1]
    assert "1,379 pairs, one seed" in answer(data)


def test_all_the_same_and_nothing_at_all():
    assert answer(found({"a": 0.8, "b": 0.8}, {("a", "b"): "tie"})).startswith("a (80.0) and b (80.0) are a tie")
    assert answer(found({"a": 0.8}, {})).startswith("a reaches 80.0")
    assert answer({"sets": [], "seeds": 1, "sample": False}).startswith("No run has finished")


def test_the_summary_of_a_finished_study(finished, rows):
    _, summary, _ = finished
    assert summary["command"].startswith("kosbert study run tiny.yaml --preset quick")  # it is nobody's but its user's
    assert {str(rows / name) for name in ("sts.tsv", "nli.tsv", "dev.tsv", "test.tsv")} <= set(summary["data"])
    assert all(len(each["sha256"]) == 64 for each in summary["data"].values())
    test, dev = summary["sets"]
    assert (test["role"], dev["role"], test["pairs"]) == ("test", "dev", 40)
    assert len(test["comparisons"]) == 10
    assert dev["comparisons"] == []  # dev chooses checkpoints: no test is made on it
    assert set(test["rows"]) == set(summary["rows"]) == set(standings(summary))
    row = test["rows"]["STS"]["spearman"]
    assert row["mean"] == pytest.approx(sum(row["runs"]) / 2)
    assert summary["published"]["rows"] == {"STS": {"cosine_pearson": 0.816, "cosine_spearman": 0.814}}
    costs = {each["row"]: each for each in summary["costs"]}
    assert costs["NLI→STS"]["steps"] == costs["NLI"]["steps"] + costs["STS"]["steps"]
    assert costs["untouched"]["seconds"] is None
