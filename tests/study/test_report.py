"""The report: HTML and Markdown agree, the page is self-contained, published reports leak nothing."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from kosbert.benchmark.efficiency import efficiency
from kosbert.errors import UsageError
from kosbert.export import export
from kosbert.study.config import StudyConfig
from kosbert.study.plan import plan_study
from kosbert.study.run_study import publish
from kosbert.study.store import Store
from kosbert.study.summarize import answer, published_metrics
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
