"""What a study found, as one JSON document: the table, the verdicts, the answer, and what was not measured.

Everything here is computed from the files of the store, so that it can be computed again, or otherwise, later.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kosbert.evaluation.published_scores import published_scores
from kosbert.evaluation.significance import seed_statistics
from kosbert.study.config import shipped
from kosbert.study.plan import Plan
from kosbert.study.runner import Outcome, stage_cost
from kosbert.study.significance import Comparison, Resampled
from kosbert.study.store import Store, StoredRun, stored_run

FAR = 3.0  # points; rows that differ by more and are not settled are no tie to a reader, but an open question


def summarize(plan: Plan, store: Store, outcome: Outcome) -> dict[str, Any]:
    """Everything that the report shows, but for the figures."""
    stored = [stored_run(store.run(plan.name, run.name), run.identity) for run in plan.runs]
    runs = [run for run in stored if run]
    sets = list(dict.fromkeys((*plan.settings.test, *plan.settings.dev)))
    planned = {row.name: min(row.seeds or plan.seeds, plan.seeds) for row in plan.rows}
    tests: list[dict[str, Any]] = []
    for name in sets:
        if not runs:
            break
        gold = runs[0].gold(name)
        resampled = Resampled(_by_row(runs, name), gold, planned=planned)
        compared = resampled.comparisons()
        tests.append(
            {
                "name": name,
                "role": "test" if name in plan.settings.test else "dev",
                "pairs": len(gold),
                "rows": {row: _scores(runs, row, name, resampled) for row in resampled.rows},
                "elsewhere": _elsewhere(plan, name),
                "undefined": [row for row in _by_row(runs, name) if row not in resampled.rows],
                "comparisons": [asdict(each) for each in compared] if name in plan.settings.test else [],
            }
        )
    found = {
        "study": plan.study.name,
        "preset": plan.preset,
        "question": plan.study.question,
        "about": plan.study.about,
        "preset_about": plan.settings.about,
        "command": command(plan),
        "backbone": _backbone(plan.backbone),
        "backbone_wanted": _backbone(plan.instead or plan.settings.backbone[0]),
        "seeds": plan.seeds,
        "planned": planned,
        "sample": any(name.startswith("sample-") for name in plan.settings.test),
        "rows": [row.name for row in plan.rows],
        "sets": tests,
        "accuracy": _accuracy(runs),
        "bytes": {run.row: run.scores["size"]["bytes"] for run in runs if "size" in run.scores},
        "published": _published(plan),
        "costs": _costs(plan, store),
        "stages": {"distinct": len(plan.stages()), "in_chains": sum(len(run.stages) for run in plan.runs)},
        "failed": outcome.failed,
        "failed_rows": sorted({run.row for run in plan.runs if run.name in outcome.failed}),
        "not_reached": outcome.not_reached,
        "not_measured": _not_measured(plan),
        "data": {name: each for run in plan.runs for name, each in run.data().items()},
        "lineage": runs[0].record["lineage"] if runs else {},
    }
    return found | {"answer": answer(found)}


def command(plan: Plan) -> str:
    """The command that makes this study."""
    seeds = "" if plan.seeds == plan.settings.seeds else f" --seeds {plan.seeds}"
    backbone = f" --backbone {plan.instead}" if plan.instead else ""
    return f"{_spoken(plan)} --preset {plan.preset}{backbone}{seeds}"


def _spoken(plan: Plan) -> str:
    """How a study is called: those that come with the package by name, others by their file."""
    name = plan.study.name
    return f"kosbert study {name}" if name in shipped() else f"kosbert study run {name}.yaml"


def _backbone(backbone: Any) -> str:
    if isinstance(backbone, str):
        return backbone
    if "from" in backbone:
        return f"{backbone['layers']} layers of {backbone['from']}"
    return f"a new one of {backbone.get('layers', 4)} layers and {backbone.get('hidden', 256)} dimensions"


def _by_row(runs: Sequence[StoredRun], name: str) -> dict[str, dict[int, NDArray[np.float64]]]:
    found: dict[str, dict[int, NDArray[np.float64]]] = {}
    for run in runs:
        found.setdefault(run.row, {})[run.seed] = run.predictions(name)
    return found


def _scores(runs: Sequence[StoredRun], row: str, name: str, resampled: Resampled) -> dict[str, Any]:
    """Spearman with both uncertainties, and every other correlation as mean and deviation over seeds."""
    own = [run.scores[name] for run in runs if run.row == row]
    others = {}
    for measure in own[0]:
        values = [each[measure] for each in own]
        others[measure] = None if None in values else _seed_statistics(values)
    return {"spearman": asdict(resampled.mean(row)), "seeds": resampled.seeds(row), "measures": others}


def _accuracy(runs: Sequence[StoredRun]) -> dict[str, Any]:
    found: dict[str, list[float]] = {}
    for run in runs:
        if "nli" in run.scores:
            found.setdefault(run.row, []).append(run.scores["nli"]["accuracy"])
    return {row: _seed_statistics(values) for row, values in found.items()}


def _published(plan: Plan) -> dict[str, Any]:
    """The published figures beside our rows, and where they stand."""
    if not plan.study.published:
        return {}
    rows: dict[str, dict[str, float]] = {}
    sources: dict[str, Any] = {}
    for each in published_scores(plan.study.published):
        for row in plan.rows:
            if row.published and each.model == row.published:
                rows.setdefault(row.name, {})[each.metric] = each.value
                source = sources.setdefault(each.source, {"address": each.url, "caveats": {}})
                about = source["caveats"].setdefault(each.caveat, [])
                about += [] if row.name in about else [row.name]
    return {"set": plan.study.published, "rows": rows, "sources": sources} if rows else {}


def _elsewhere(plan: Plan, name: str) -> dict[str, dict[str, float]]:
    """All eight correlations and their average, where those whose figures stand beside our rows published them."""
    ours = {row.published for row in plan.rows}
    sources = {each.source for each in published_scores(plan.study.published) if each.model in ours}
    found: dict[str, dict[str, float]] = {}
    for each in published_scores(name):
        if each.source in sources:
            found.setdefault(each.model, {})[each.metric] = each.value
    return {model: measures for model, measures in found.items() if "average" in measures}


def _costs(plan: Plan, store: Store) -> list[dict[str, Any]]:
    """Training seconds of each row: of all its stages for a seed, and of those that no row above had trained."""
    counted: set[str] = set()
    found: dict[str, dict[str, Any]] = {}
    for run in plan.runs:
        row = found.setdefault(run.row, {"row": run.row, "chain": [], "seconds": [], "own": 0.0, "steps": None})
        row["chain"] = [stage.label for stage in run.stages]
        costs = {stage.key: stage_cost(stage.key, store) for stage in run.stages}
        if run.cross_encoder:
            stored = stored_run(store.run(plan.name, run.name), run.identity)
            row["chain"], costs = ["cross-encoder"], {run.name: stored.record.get("cost", {}) if stored else {}}
        seconds: list[float] = [cost["seconds"] for cost in costs.values() if cost.get("seconds") is not None]
        if costs and len(seconds) == len(costs):
            row["seconds"].append(sum(seconds))
            row["steps"] = sum(cost["steps"] for cost in costs.values() if cost["steps"]) or None
        for key, cost in costs.items():
            if key not in counted and cost.get("seconds"):
                counted.add(key)
                row["own"] += cost["seconds"]
    for row in found.values():
        row["seconds"] = float(np.mean(row["seconds"])) if row["seconds"] else None
    return list(found.values())


def _not_measured(plan: Plan) -> list[dict[str, str]]:
    """The other presets, each with the command that would measure it."""
    return [each.model_dump() for each in plan.study.not_measured] + [
        {"what": preset.about, "command": f"{_spoken(plan)} --preset {name}"}
        for name, preset in plan.study.presets.items()
        if name != plan.preset
    ]


def standings(found: Mapping[str, Any], name: str = "") -> list[str]:
    """The rows of a test set (the first without a name), best mean first."""
    tests = [each for each in found["sets"] if each["role"] == "test" and name in ("", each["name"])]
    rows: dict[str, Any] = tests[0]["rows"] if tests else {}
    return sorted(rows, key=lambda row: -rows[row]["spearman"]["mean"])


def ties_of_the_best(found: Mapping[str, Any]) -> list[str]:
    """The best row of the first test set, and those that cannot be told from it, best first."""
    order = standings(found)
    if not order:
        return []
    compared = [Comparison(**each) for each in next(x for x in found["sets"] if x["role"] == "test")["comparisons"]]
    tied = {
        each.second if each.first == order[0] else each.first
        for each in compared
        if order[0] in (each.first, each.second) and each.verdict == "tie"
    }
    return [order[0], *(row for row in order[1:] if row in tied)]


def answer(found: Mapping[str, Any]) -> str:
    """One sentence; a tie is called a tie."""
    order, best = standings(found), ties_of_the_best(found)
    if not order:
        return "No run has finished, so there is no answer yet."
    test = next(each for each in found["sets"] if each["role"] == "test")
    means = {row: 100 * test["rows"][row]["spearman"]["mean"] for row in order}
    where = f"Spearman on {test['name']}, {test['pairs']:,} pairs, {finished_seeds(found)}"
    rest = [row for row in order if row not in best]
    if len(order) == 1:
        text = f"{order[0]} reaches {means[order[0]]:.1f} ({where})"
    elif len(best) == 1:
        runner_up = f"the next being {rest[0]} with {means[rest[0]]:.1f}"
        text = f"{best[0]} with {means[best[0]]:.1f}, ahead of every other row, {runner_up} ({where})"
    else:
        named = _listed([f"{row} ({means[row]:.1f})" for row in best])
        close = means[best[0]] - means[best[-1]] < FAR
        text = f"{named} are a tie ({where})" if close else f"{named} are not told apart ({where}: too few to tell)"
        text += (
            f", {'both' if len(best) == 2 else 'all'} ahead of {_listed(rest)}"
            if rest and _all_ahead(test, best, rest)
            else ""
        )
        text += f"; {best[0]} is ahead of {_listed(rest)}" if rest and not _all_ahead(test, best, rest) else ""
    return text + ("; the sample set proves nothing about Korean." if found["sample"] else ".")


def finished_seeds(found: Mapping[str, Any]) -> str:
    """How many seeds the rows have that were to have several: those that are there, not those that were planned."""
    rows: dict[str, Any] = next((each["rows"] for each in found["sets"] if each["role"] == "test"), {})
    counts = [len(rows[row]["seeds"]) for row, wanted in found["planned"].items() if wanted > 1 and row in rows]
    least, most = min(counts, default=1), max(counts, default=1)
    if most == 1:
        return "one seed"
    return f"{most} seeds" if least == most else f"{least} to {most} seeds"


def _all_ahead(test: dict[str, Any], best: Sequence[str], rest: Sequence[str]) -> bool:
    won = {
        (each["first"], each["second"]) if each["verdict"] == "first" else (each["second"], each["first"])
        for each in test["comparisons"]
        if each["verdict"] != "tie"
    }
    return all((one, other) in won for one in best for other in rest)


def _listed(names: Sequence[str]) -> str:
    """Join names as a sentence does.

    >>> _listed(["a", "b", "c"])
    'a, b and c'
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def chosen_on_dev(found: Mapping[str, Any]) -> str:
    """The row that dev would have chosen: nobody may choose on test."""
    for each in found["sets"]:
        if each["role"] == "dev" and each["rows"]:
            rows: dict[str, Any] = each["rows"]
            return max(rows, key=lambda row: float(rows[row]["spearman"]["mean"]))
    return ""


def open_summary(folder: Path) -> dict[str, Any]:
    """The stored summary of a finished study."""
    from kosbert.study.store import read_json

    found: dict[str, Any] = read_json(folder / "summary.json")
    return found


def _seed_statistics(values: list[float]) -> dict[str, Any]:
    statistics = asdict(seed_statistics(values))
    return {"deviation" if key == "std" else key: value for key, value in statistics.items()}
