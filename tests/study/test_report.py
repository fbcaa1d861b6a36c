"""The report: HTML and Markdown agree, the page is self-contained, published reports leak nothing."""

import copy
import platform
import re
from dataclasses import replace
from html.parser import HTMLParser
from importlib.metadata import version
from pathlib import Path

import pytest

from kosbert.benchmark.efficiency import efficiency
from kosbert.errors import UsageError
from kosbert.export import export
from kosbert.study.config import StudyConfig
from kosbert.study.plan import plan_study
from kosbert.study.report import curve_section, dev_by_epoch, environment
from kosbert.study.run_study import publish, run_study, stored_context
from kosbert.study.store import Store, stored_runs
from kosbert.study.summarize import answer, published_dev, published_metrics
from kosbert.study.summary import StudySummary, load_summary
from kosbert.study.tables import Cell, Table, metrics_table, percent, results_table, significance_table

TITLES = (
    "Results",
    "Which differences are significant?",
    "All similarity functions",
    "Dev score during training",
    "Scores by slice",
    "Example pairs: ",
    "Embedding map",
    "Training cost",
    "What was not measured",
    "Method and environment",
)
RESULTS = Path(__file__).parents[2] / "results"
PUBLISHED = sorted(path.parent.name for path in RESULTS.glob("*/summary.json"))


class PageReader(HTMLParser):
    """Collects tags, URLs and text, and checks that every tag is closed."""

    def __init__(self):
        super().__init__()
        self.open, self.tags, self.urls, self.text = [], [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.urls += [value for name, value in attrs if name in ("src", "href")]
        if tag not in ("meta", "link", "br") and not self.get_starttag_text().endswith("/>"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in ("circle", "line", "rect", "path", "polyline"):
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def test_page_is_self_contained(finished):
    _, summary, page = finished
    text = page.read_text(encoding="utf-8")
    reader = PageReader()
    reader.feed(text)
    assert reader.open == []
    assert reader.urls == ["data:,"]
    assert "script" not in reader.tags
    assert not re.search(r"url\(|@import", text)
    assert "Noto Sans CJK KR" in text
    words = " ".join("".join(reader.text).split())
    assert summary.answer in words
    assert "Which order <first>?" in words
    assert "<b>비가</b>" not in text


def test_html_and_markdown_have_the_same_numbers(finished):
    _, summary, page = finished
    markdown = page.with_suffix(".md").read_text(encoding="utf-8")
    html = page.read_text(encoding="utf-8")
    assert summary.answer in markdown
    for scores in summary.eval_sets[0].scores.values():
        number = percent(scores.spearman.mean)
        assert number in markdown
        assert number in html
    figures = re.findall(r"!\[.*?\]\(figures/(.*?\.svg)\)", markdown)
    assert len(figures) >= 1 + 4 + 2
    assert {path.name for path in (page.parent / "figures").iterdir()} == set(figures)


def test_report_has_all_sections(finished):
    _, _, page = finished
    markdown = page.with_suffix(".md").read_text(encoding="utf-8")
    assert all(f"\n## {title}" in markdown for title in TITLES)
    assert "81.60 / 81.40" in markdown  # the published scores of STS


def test_published_dev_scores_are_next_to_ours(finished, monkeypatch):
    store, summary, _ = finished
    assert all(variant.published_dev == [] for variant in summary.variants)  # another dev set
    monkeypatch.setattr("kosbert.study.plan.data_checksum", lambda *_: {"rows": 1, "sha256": ""})
    monkeypatch.setattr("kosbert.study.plan._model_checksum", lambda _: "")
    plan = plan_study(StudyConfig.builtin("order"), "paper")
    published = {variant.name: published_dev(plan, variant) for variant in plan.variants}
    assert published["STS"] == [0.8573, 0.8652, 0.8651, 0.8661]
    assert published["STS→NLI"] == [0.8644]
    changed = summary.model_copy(deep=True)
    changed.variants[1].published_dev, changed.variants[4].published_dev = published["STS"], published["STS→NLI"]
    runs = stored_runs(store.study("tiny-quick"))
    section = curve_section([], changed, runs)
    last = [run.curves()[-1]["points"][-1]["dev"] for run in runs if run.variant == "STS"]
    ours = percent(sum(last) / 2)
    text = "\n".join(section.markdown)
    assert "| variant |  | epoch 1 | epoch 2 | epoch 3 | epoch 4 |" in text
    assert "| STS | published | 85.73 | 86.52 | 86.51 | 86.61 |" in text
    assert f"| STS | ours | {ours} | – | – | – |" in text  # one epoch
    assert "| NLI→STS | published | 86.44 | – | – | – |" in text


def test_dev_score_that_was_not_measured_at_the_end_of_an_epoch_is_empty(finished):
    store, _, _ = finished
    (run,) = [run for run in stored_runs(store.study("tiny-quick")) if run.directory.name == "02-sts-seed-1"]
    record = run.record | {"recipes": [{"stages": [{"epochs": 4.0}]}]}  # measured after steps 5 and 10
    assert [value is None for value in dev_by_epoch([replace(run, record=record)])["STS"]] == [True, False, True, False]


def test_report_names_environment_differences_and_what_was_shortened(document, tmp_path):
    changed = copy.deepcopy(document) | {"variants": [{"name": "STS", "stages": ["sts"]}]}
    changed["presets"]["quick"] |= {"differences": ["One <b> seed."], "seeds": [777]}
    summary, page, _ = run_study(
        StudyConfig.model_validate(changed), "quick", Store(tmp_path), limit=8, settings=["train.batch_size=2"]
    )
    assert (summary.limit, summary.settings, summary.facts["seeds"]) == (8, ["train.batch_size=2"], "one (777)")
    assert summary.variants[0].steps == 4  # 8 rows in batches of 2
    assert "a shortened run, with at most 8 rows of every training source" in summary.answer
    markdown, html = (page.with_suffix(suffix).read_text(encoding="utf-8") for suffix in (".md", ".html"))
    shortened = (
        "This is a shortened run: at most 8 random rows of every training source; dev and test sets are complete"
    )
    for text in (markdown, html):
        assert shortened in text
        assert "Changed settings: train.batch_size=2." in text
        assert "Differences from the published experiment" in text
        assert f"Python {platform.python_version()}, torch {version('torch')}" in text
        assert "1 CPU thread, " in text
    assert "- One <b> seed." in markdown
    assert "<li>One &lt;b&gt; seed.</li>" in html
    assert stored_context(page.parent).plan.name == page.parent.name == summary_directory(tmp_path)
    public = publish(page.parent, tmp_path / "public")
    assert shortened in public.read_text(encoding="utf-8")


def test_environment_names_the_commit_of_the_backbone(finished):
    _, summary, _ = finished
    provenance = summary.provenance
    assert provenance.backbone is None
    assert "backbone" not in environment(provenance)
    changed = provenance.model_copy(update={"backbone": {"name": "klue/bert-base", "commit": "77c8b3d"}})
    assert environment(changed).endswith(", backbone klue/bert-base (commit 77c8b3d).")


def summary_directory(root):
    (path,) = root.glob("*/summary.json")
    return path.parent.name


def test_metrics_table_lists_published_models_last(finished, monkeypatch):
    _, summary, _ = finished
    test = summary.eval_sets[0]
    assert test.published == {}  # nothing is published about a user's file
    monkeypatch.setattr("kosbert.study.plan.data_checksum", lambda *_: {"rows": 1, "sha256": ""})
    monkeypatch.setattr("kosbert.study.plan._model_checksum", lambda _: "")
    published = published_metrics(plan_study(StudyConfig.builtin("simcse"), "paper", seeds=1), "korsts-test")
    assert {model: metrics["average"] for model, metrics in published.items()} == {
        "SimCSE-BERT-KO (unsup)": 0.7285,
        "SimCSE-BERT-KO (sup)": 0.8598,
        "SimCSE-RoBERTa-KO (unsup)": 0.7579,
        "SimCSE-RoBERTa-KO (sup)": 0.8306,
    }
    assert published_metrics(plan_study(StudyConfig.builtin("order"), "paper", seeds=1), "korsts-test") == {}
    table = metrics_table(test.model_copy(update={"published": published}), summary.variant_names)
    assert len(table.header) == 10
    metrics = test.scores["STS"].metrics
    row = next(row for row in table.rows if row[0].text == "STS")
    assert row[1].text == percent(metrics["average"].mean)
    assert row[2].text == percent(metrics["cosine_pearson"].mean)
    assert [cell.text for cell in table.rows[-1][:3]] == ["SimCSE-RoBERTa-KO (sup)", "83.06", "82.67"]


def test_published_report_has_no_sentences_and_no_paths(finished, data_files, tmp_path):
    store, summary, page = finished
    lines = (data_files / "test.tsv").read_text("utf-8").splitlines()[1:]
    sentences = [text for line in lines for text in line.split("\t")[:2]]
    assert any(text in page.with_suffix(".md").read_text("utf-8") for text in sentences)
    public = publish(page.parent, tmp_path / "public")
    files = sorted(path.relative_to(public.parent).as_posix() for path in public.parent.rglob("*") if path.is_file())
    figures = sorted(f"figures/{path.name}" for path in (page.parent / "figures").iterdir())
    assert files == [*figures, "report.html", "report.md", "summary.json"]
    for name in files:
        text = (public.parent / name).read_text("utf-8")
        assert not [sentence for sentence in sentences if sentence in text]
        assert str(store.root) not in text
        assert str(data_files) not in text
    markdown = public.with_suffix(".md").read_text("utf-8")
    assert re.sub(r"on \S+/", "on ", summary.answer) in markdown
    example = summary.examples[0]
    assert f"| {example.pair} | {example.gold:.1f} |" in markdown
    assert publish(page.parent, public.parent) == public  # an old report is replaced
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").touch()
    with pytest.raises(UsageError, match="is not empty and holds no report"):
        publish(page.parent, tmp_path / "other")


def test_table_escapes_its_cells():
    table = Table(["a|b", "<c>"], [[Cell("x|y"), Cell("<script>", "&", "ns")], [Cell("group")]], (0,))
    assert "&lt;script&gt; <small>&amp;</small>" in table.html()
    assert '<tr class="best">' in table.html()
    assert "| **x\\|y** | &lt;script> & |" in table.markdown()


def test_efficiency_of_a_tiny_model(tiny_bert, tmp_path):
    summary, page = efficiency("quick", Store(tmp_path), model=str(tiny_bert), rounds=1)
    assert summary.methods[0].method.startswith("padded, ")
    assert summary.methods[0].ratio == 1.0
    assert load_summary(page.parent) == summary
    assert "SBERT-base - smart batching" in page.read_text(encoding="utf-8")


def test_efficiency_creates_a_model_where_the_builtin_one_is_missing(tmp_path, monkeypatch):
    monkeypatch.setattr("kosbert.benchmark.efficiency.is_local", lambda _: False)
    summary, _ = efficiency("quick", Store(tmp_path), rounds=1)
    assert summary.model == "a new model with 4 layers and 256 dimensions"


def test_efficiency_report_has_the_full_command_without_paths(tiny_bert, tmp_path):
    exported = export(tiny_bert, tmp_path / "exported").path
    summary, page = efficiency("quick", Store(tmp_path), model=str(tiny_bert), exported=[exported], rounds=1)
    assert summary.command == (
        f"kosbert study efficiency --preset quick --onnx exported --model {tiny_bert.name} --rounds 1"
    )
    published = publish(page.parent, tmp_path / "public").parent
    assert sorted(path.name for path in published.iterdir()) == ["report.html", "report.md", "summary.json"]
    for path in published.iterdir():
        assert str(tmp_path) not in path.read_text(encoding="utf-8")
        assert str(tiny_bert) not in path.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", PUBLISHED)
def test_reports_in_results_match_their_summary(name):
    summary = load_summary(RESULTS / name)
    markdown, html = ((RESULTS / name / f"report.{suffix}").read_text(encoding="utf-8") for suffix in ("md", "html"))
    assert f"**{summary.answer}**" in markdown
    titles = ["Results", "Published speeds", *TITLES[-2:]]
    if isinstance(summary, StudySummary):
        assert summary.answer == answer(summary)
        titles = list(TITLES)
        tables = [results_table(summary), *(significance_table(t, summary.variant_names) for t in summary.test_sets)]
        assert all(table.markdown() in markdown and table.html() in html for table in tables)
    assert [title for title in titles if f"\n## {title}" not in markdown or f"<h2>{title}" not in html] == []


def test_results_has_five_published_studies():
    assert PUBLISHED == ["concat", "efficiency", "order", "pooling", "simcse"]
