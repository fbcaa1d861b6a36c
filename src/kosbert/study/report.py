"""The report of the baselines study: a table, a picture, what was not measured."""

from pathlib import Path

import numpy as np

from kosbert.study.baselines import Baseline

_COLOURS = ("#0072b2", "#d55e00")  # two of Okabe and Ito's colours, told apart by everyone


def write_report(baselines: list[Baseline], directory: Path) -> Path:
    """Write `report.md` and its figure; returns the path of the report."""
    directory.mkdir(parents=True, exist_ok=True)
    _draw(baselines, directory / "similarity.png")
    lines = [
        "# How far does a method get that understands nothing?",
        "",
        "Character 1- to 3-grams (TF-IDF, sublinear), fitted on the training sentences; cosine against human scores.",
        "",
        "| data | pairs | Spearman ×100 | 95% interval | sentences also in train | pairs also in train |",
        "|---|---|---|---|---|---|",
    ]
    for each in baselines:
        leaks = {(leak.unit, leak.level): leak.count for leak in each.leaks}
        score = f"{100 * each.spearman.value:.2f}" if each.spearman else "undefined"
        spread = f"{100 * each.spearman.low:.1f} to {100 * each.spearman.high:.1f}" if each.spearman else "–"
        lines.append(
            f"| {each.test} | {len(each.pairs):,} | {score} | {spread} | {leaks['sentence', 'exact']} | "
            f"{leaks['pair', 'exact']} |"
        )
    lines += [
        "",
        "![cosine of character n-grams against the gold score](similarity.png)",
        "",
        "The sample set is written by our own grammar, for trying and testing: its numbers are no claim about Korean.",
    ]
    if not any(each.name == "KorSTS" for each in baselines):
        lines.append("KorSTS was not measured: `kosbert data fetch korsts`, or set `KOSBERT_DATA`, and run this again.")
    lines += [
        "",
        "Made by `kosbert study baselines`; intervals are percentile bootstraps over pairs (2,000 resamples).",
        "",
    ]
    report = directory / "report.md"
    report.write_text("\n".join(lines), encoding="utf-8")
    return report


def _draw(baselines: list[Baseline], path: Path) -> None:
    """One panel a data set: what the n-grams say against what people (or the grammar) say."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(baselines), figsize=(5.2 * len(baselines), 4.2), squeeze=False, dpi=150)
    for axis, each, colour in zip(axes[0], baselines, _COLOURS, strict=False):
        gold = np.array([pair.score for pair in each.pairs])
        axis.scatter(gold, each.predictions, s=7, alpha=0.35, color=colour, linewidths=0)
        score = f"{100 * each.spearman.value:.1f}" if each.spearman else "undefined"
        axis.set(title=f"{each.test}: Spearman {score}", xlabel="gold score", ylabel="cosine of character n-grams")
        axis.set_ylim(-0.03, 1.03)
        axis.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(path)
    pyplot.close(figure)
