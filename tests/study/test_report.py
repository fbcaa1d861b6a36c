"""The page needs nothing else, and says what the numbers say, in both of its forms."""

import re
from html.parser import HTMLParser

import pytest

from kosbert.benchmark.efficiency import efficiency, measure
from kosbert.errors import UsageError
from kosbert.export import export
from kosbert.study.config import Study
from kosbert.study.plan import plan
from kosbert.study.run_study import publish
from kosbert.study.store import Store
from kosbert.study.summary import _elsewhere
from kosbert.study.tables import Cell, Table, eight_table, hundred


class Reader(HTMLParser):
    """Collects tags, addresses and text; and sees that every tag is closed."""

    def __init__(self):
        super().__init__()
        self.open, self.tags, self.addresses, self.text = [], [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.addresses += [value for name, value in attrs if name in ("src", "href")]
        if tag not in ("meta", "link", "br") and not self.get_starttag_text().endswith("/>"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in ("circle", "line", "rect", "path", "polyline"):
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def test_the_page_stands_alone(finished):
    _, found, page = finished
    text = page.read_text(encoding="utf-8")
    reader = Reader()
    reader.feed(text)
    assert reader.open == []
    assert reader.addresses == ["data:,"]
    assert "script" not in reader.tags
    assert not re.search(r"url\(|@import", text)
    assert "Noto Sans CJK KR" in text
    words = " ".join("".join(reader.text).split())
    assert found["answer"] in words
    assert "Which order <first>?" in words
    assert "<b>비가</b>" not in text


def test_both_forms_have_the_same_numbers(finished):
    _, found, page = finished
    markdown = page.with_suffix(".md").read_text(encoding="utf-8")
    html = page.read_text(encoding="utf-8")
    assert found["answer"] in markdown
    for row in found["sets"][0]["rows"].values():
        number = hundred(row["spearman"]["mean"])
        assert number in markdown
        assert number in html
    pictures = re.findall(r"!\[.*?\]\((figures/.*?\.svg)\)", markdown)
    assert len(pictures) >= 1 + 4 + 2
    assert all((page.parent / each).is_file() for each in pictures)
    assert {each.name for each in (page.parent / "figures").iterdir()} == {each.split("/")[1] for each in pictures}


def test_the_parts_of_the_report(finished):
    _, _, page = finished
    markdown = page.with_suffix(".md").read_text(encoding="utf-8")
    for title in (
        "The table", "Which differences are differences?", "By every similarity", "On the way",
        "Where the scores come from", "wins and loses", "A map", "What it cost", "What was not measured",
        "How it was measured",
    ):  # fmt: skip
        assert title in markdown
    assert "81.60 / 81.40" in markdown  # the published row


def test_the_eight_correlations_stand_above_the_published_ones(finished, monkeypatch):
    _, found, _ = finished
    test = found["sets"][0]
    assert test["elsewhere"] == {}  # a file of our own
    monkeypatch.setattr("kosbert.study.plan.fingerprint", lambda *_: {"rows": 1, "sha256": ""})
    monkeypatch.setattr("kosbert.study.plan._weights", lambda _: "")
    theirs = _elsewhere(plan(Study.named("simcse"), "paper", seeds=1), "korsts-test")
    assert {model: measures["average"] for model, measures in theirs.items()} == {
        "SimCSE-BERT-KO (unsup)": 0.7285,
        "SimCSE-BERT-KO (sup)": 0.8598,
        "SimCSE-RoBERTa-KO (unsup)": 0.7579,
        "SimCSE-RoBERTa-KO (sup)": 0.8306,
    }
    assert _elsewhere(plan(Study.named("order"), "paper", seeds=1), "korsts-test") == {}
    table = eight_table(test | {"elsewhere": theirs}, found["rows"])
    assert len(table.heads) == 10
    own = test["rows"]["STS"]["measures"]
    row = next(row for row in table.rows if row[0].text == "STS")
    assert row[1].text == hundred(own["average"]["mean"])
    assert row[2].text == hundred(own["cosine_pearson"]["mean"])
    assert [cell.text for cell in table.rows[-1][:3]] == ["SimCSE-RoBERTa-KO (sup)", "83.06", "82.67"]


def test_a_published_report_has_no_sentence_of_the_data_and_no_path(finished, rows, tmp_path):
    store, found, page = finished
    sentences = [
        text for line in (rows / "test.tsv").read_text("utf-8").splitlines()[1:] for text in line.split("\t")[:2]
    ]
    assert any(text in page.with_suffix(".md").read_text("utf-8") for text in sentences)
    public = publish(page.parent, tmp_path / "public")
    files = sorted(each.relative_to(public.parent).as_posix() for each in public.parent.rglob("*") if each.is_file())
    figures = sorted(f"figures/{each.name}" for each in (page.parent / "figures").iterdir())
    assert files == [*figures, "report.html", "report.md", "summary.json"]
    for name in files:
        text = (public.parent / name).read_text("utf-8")
        assert not [each for each in sentences if each in text]
        assert str(store.root) not in text
    markdown = public.with_suffix(".md").read_text("utf-8")
    assert re.sub(r"on \S+/", "on ", found["answer"]) in markdown
    assert f"| {found['examples'][0]['pair']} | {found['examples'][0]['gold']:.1f} |" in markdown
    assert publish(page.parent, public.parent) == public  # again, over the old one
    (tmp_path / "else").mkdir()
    (tmp_path / "else" / "file").touch()
    with pytest.raises(UsageError, match="something else than a report"):
        publish(page.parent, tmp_path / "else")


def test_a_table_escapes_what_it_holds():
    table = Table(["a|b", "<c>"], [[Cell("x|y"), Cell("<script>", "&", "tie")], [Cell("group")]], (0,))
    assert "&lt;script&gt; <small>&amp;</small>" in table.html()
    assert '<tr class="best">' in table.html()
    assert "| **x\\|y** | &lt;script> & |" in table.markdown()


def test_ratios_are_taken_within_a_round():
    calls = []
    ways = {name: (lambda texts, name=name: calls.append(name)) for name in ("padded", "packed")}
    found = measure(ways, ["비가 온다."] * 3, rounds=4)
    assert len(calls) == 2 * 5  # a round that is not counted, and four
    assert [len(each.ratios) for each in found] == [4, 4]
    assert found[0].ratios == [1.0] * 4
    for one, other in zip(found[0].sentences_per_second, found[1].sentences_per_second, strict=True):
        assert one > 0 < other
    ratio = found[1].sentences_per_second[2] / found[0].sentences_per_second[2]
    assert found[1].ratios[2] == pytest.approx(ratio)


def test_efficiency_of_a_tiny_model(tiny_bert, tmp_path):
    found, page = efficiency("quick", Store(tmp_path), model=str(tiny_bert), rounds=1)
    assert found["rows"][0]["way"].startswith("padded, ")
    assert found["rows"][0]["ratio"] == 1.0
    assert "SBERT-base - smart batching" in page.read_text(encoding="utf-8")


def test_a_report_of_speed_names_its_command_whole_and_is_published_without_paths(tiny_bert, tmp_path):
    exported = export(tiny_bert, tmp_path / "exported").path
    found, page = efficiency("quick", Store(tmp_path), model=str(tiny_bert), exported=[exported], rounds=1)
    assert found["command"] == (
        f"kosbert study efficiency --preset quick --onnx exported --model {tiny_bert.name} --rounds 1"
    )
    published = publish(page.parent, tmp_path / "public").parent
    assert sorted(path.name for path in published.iterdir()) == ["report.html", "report.md", "summary.json"]
    for path in published.iterdir():
        assert str(tmp_path) not in path.read_text(encoding="utf-8")
        assert str(tiny_bert) not in path.read_text(encoding="utf-8")
