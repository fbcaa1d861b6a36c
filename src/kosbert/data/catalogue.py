"""The data sets that kosbert knows. Adding one is one entry in a list here or in `english.py`, and nothing else.

Checksums are of the published files; `git:` is the object name that a file has in its public repository.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from kosbert.data.english import ENGLISH
from kosbert.data.readers import (
    Reader,
    comma_separated,
    json_list,
    labeled,
    labeled_pair,
    plain_lines,
    reader,
    scored,
    sentence,
    tab_separated,
)
from kosbert.data.records import LabeledSentence, Record
from kosbert.data.registry import Dataset, File, Split
from kosbert.data.sample.grammar import generate_nli, generate_sts

_GITHUB = "https://raw.githubusercontent.com"
_HAM_ET_AL = (
    "Ham et al. 2020, KorNLI and KorSTS: New Benchmark Datasets for Korean Natural Language Understanding, "
    "Findings of EMNLP"
)
_PARK_ET_AL = "Park et al. 2021, KLUE: Korean Language Understanding Evaluation, NeurIPS Datasets and Benchmarks"


def _kor_nlu(name: str, git_object: str) -> tuple[File]:
    """A file of kakaobrain/kor-nlu-datasets."""
    folder = "KorSTS" if name.startswith("sts-") else "KorNLI"
    url = f"{_GITHUB}/kakaobrain/kor-nlu-datasets/master/{folder}/{name}"
    return (File(f"{folder.lower()}/{name}", url, f"git:{git_object}"),)


def _github(path: str, repository: str, source: str, sha256: str) -> tuple[File]:
    """A file of a GitHub repository: `source` is commit (or branch) and path."""
    return (File(path, f"{_GITHUB}/{repository}/{source}", f"sha256:{sha256}"),)


def _klue_nli(source: str) -> Reader:
    return reader(json_list(), labeled_pair("premise", "hypothesis", "gold_label", source=source))


def _paraphrase_groups(paths: Sequence[Path]) -> Iterator[Record]:
    """ParaKQC: ten consecutive lines say the same; the label is the number of the group."""
    for path in paths:
        for number, row in enumerate(tab_separated(("topic", "act", "text"))(path)):
            yield LabeledSentence(row.text("text"), str(number // 10))


def _titles_with_topics(paths: Sequence[Path]) -> Iterator[Record]:
    """YNAT as CSV: the second file names the topics."""
    titles, topics = paths
    names = {row.text("topic_idx"): row.text("topic") for row in comma_separated()(topics)}
    return reader(comma_separated(), labeled("title", "topic_idx", labels=names))([titles])


def _sample(task: str, split: str, rows: int) -> Split:
    if task == "sts":
        return Split(rows, (), lambda _: iter(generate_sts(split, rows)), task)
    return Split(rows, (), lambda _: iter(generate_nli(split, rows)), task)


_klue_sts_train = _github(
    "klue-sts/klue_sts_train.csv",
    "Bing-su/klue-sts-csv-data",
    "5cc4924f699e0ead8b654730b73c735a5a55dedf/data/klue_sts_train.csv",
    "1204659f6e5914b16f349810c89784339abdc436fb2feb28865313fadc38cbe9",
)
_HOLDOUT = 1_000  # rows at the end of KLUE-STS train to choose on, because its dev is everyone's test


def _last_of_klue_sts_train(paths: Sequence[Path]) -> Iterator[Record]:
    return iter(list(reader(comma_separated(), scored(score="label"))(paths))[-_HOLDOUT:])


_korsts = reader(tab_separated(), scored(source="filename"))
_kornli = reader(tab_separated(), labeled_pair(label="gold_label"))
_nsmc = reader(tab_separated(), labeled("document", labels={"0": "negative", "1": "positive"}))
_beep = reader(comma_separated("\t"), labeled("comments", "hate", labels=("none", "offensive", "hate")))
_sentineg = reader(tab_separated(), labeled("Text", "Label", labels={"0": "negative", "1": "positive"}))
_intents = ("fragment", "statement", "question", "command", "rhetorical question", "rhetorical command", "intonation")
_3i4k = reader(tab_separated(("label", "text")), labeled(labels={str(n): name for n, name in enumerate(_intents)}))
_corpus = reader(plain_lines(), sentence())
_corpus_rows = {
    "adobe_aep_ko": 71_758,
    "bible_krv1961": 30_675,
    "deb_libreoffice_help": 18_722,
    "hf_ko": 7_189,
    "k8s_ko": 22_680,
    "kobest": 61_664,
    "kocohub_comments": 33_650,
    "mdn_ko": 69_305,
    "ms_dotnet_ko": 209_869,
    "ms_m365_ko": 105_802,
    "ms_sql_ko": 321_851,
    "news_parallel": 7_651,
    "nsmc_reviews": 616_960,
    "pytorch_kr": 5_395,
    "react_ko": 13_815,
    "tf_ko": 34_188,
    "ud_kaist_devtest": 4_309,
}

KOREAN = [
    Dataset(
        "sample",
        task="nli, sts",
        language="ko",
        description="Written by our own grammar, labeled by construction: for trying and testing, never for claims.",
        home="kosbert itself (kosbert.data.sample.grammar)",
        license="Apache-2.0",
        citation="none: do not cite numbers on it",
        default="sts-test",
        splits={
            "nli-train": _sample("nli", "train", 6000),
            "nli-dev": _sample("nli", "dev", 600),
            "nli-test": _sample("nli", "test", 600),
            "sts-train": _sample("sts", "train", 2000),
            "sts-dev": _sample("sts", "dev", 500),
            "sts-test": _sample("sts", "test", 1000),
        },
    ),
    Dataset(
        "korsts",
        task="sts",
        language="ko",
        description="The STS benchmark translated into Korean; dev and test corrected by people. Scores 0 to 5.",
        home="https://github.com/kakaobrain/kor-nlu-datasets",
        license="CC-BY-SA-4.0",
        citation=_HAM_ET_AL,
        splits={
            "train": Split(5749, _kor_nlu("sts-train.tsv", "91fc16190dd0102a3cad2f0abf83317703438869"), _korsts),
            "dev": Split(1500, _kor_nlu("sts-dev.tsv", "3686d9394fa63bcfd6b1bc7c70a60b1dfe08d388"), _korsts),
            "test": Split(1379, _kor_nlu("sts-test.tsv", "d2a7c958d520ed84402c0042142a60d9a18ee3e4"), _korsts),
        },
    ),
    Dataset(
        "kornli",
        task="nli",
        language="ko",
        description="SNLI and MultiNLI (training) and XNLI (dev, test) in Korean; dev and test corrected by people.",
        home="https://github.com/kakaobrain/kor-nlu-datasets",
        license="CC-BY-SA-4.0",
        citation=_HAM_ET_AL,
        splits={
            "snli-train": Split(
                550_152, _kor_nlu("snli_1.0_train.ko.tsv", "c91761e52fca2a7420104589811346986ce94073"), _kornli
            ),
            "multinli-train": Split(
                392_702, _kor_nlu("multinli.train.ko.tsv", "94d26a9d0dd045928148ef8691a256bd0e7d45c3"), _kornli
            ),
            "dev": Split(2490, _kor_nlu("xnli.dev.ko.tsv", "21305150d466aa35d42b14e1890b7dcd58084634"), _kornli),
            "test": Split(5010, _kor_nlu("xnli.test.ko.tsv", "89a0b11bffa775fafd88178b3980a1fe2d8aee52"), _kornli),
        },
    ),
    Dataset(
        "klue-sts",
        task="sts",
        language="ko",
        description="Pairs from reviews, news and commands, scored 0 to 5 by seven people; dev is everyone's test.",
        home="https://github.com/KLUE-benchmark/KLUE",
        license="CC-BY-SA-4.0",
        citation=_PARK_ET_AL,
        default="dev",
        splits={
            "train": Split(11_668, _klue_sts_train, reader(comma_separated(), scored(score="label"))),
            "holdout": Split(_HOLDOUT, _klue_sts_train, _last_of_klue_sts_train),
            "dev": Split(
                519,
                _github(
                    "klue-sts/klue-sts-v1.1_dev.json",
                    "KLUE-benchmark/KLUE",
                    "3efd98708a40ff49251fddde35453f8fbb11f536/klue_benchmark/klue-sts-v1.1/klue-sts-v1.1_dev.json",
                    "b6a0ae0c370e21687f7eef0fdea872a328bb2ecbdb020c546cb870d28606bf80",
                ),
                # `label` is `real-label` rounded to one decimal; the benchmark and MTEB score against `label`.
                reader(json_list(), scored(score="labels.label", source="source", votes="annotations.annotations")),
            ),
        },
    ),
    Dataset(
        "klue-nli",
        task="nli",
        language="ko",
        description="NLI written by Korean speakers on news, encyclopaedia, reviews.",
        home="https://github.com/KLUE-benchmark/KLUE",
        license="CC-BY-SA-4.0",
        citation=_PARK_ET_AL,
        default="dev",
        splits={
            "train": Split(
                24_998,
                _github(
                    "klue-nli/klue-nli-v1.1_train.json",
                    "KLUE-benchmark/KLUE",
                    "3efd98708a40ff49251fddde35453f8fbb11f536/klue_benchmark/klue-nli-v1.1/klue-nli-v1.1_train.json",
                    "8d32e7e4ff97804a23f277fee8740f1341ac82e1c0c7b34f1be21952e4813996",
                ),
                _klue_nli("genre"),
            ),
            "dev": Split(
                3000,
                _github(
                    "klue-nli/klue-nli-v1.1_dev.json",
                    "KLUE-benchmark/KLUE",
                    "3efd98708a40ff49251fddde35453f8fbb11f536/klue_benchmark/klue-nli-v1.1/klue-nli-v1.1_dev.json",
                    "0699db82be17766b26e199864e6260443e17ec6e91d1870e876419e388f245b1",
                ),
                _klue_nli("source"),
            ),
        },
    ),
    Dataset(
        "parakqc",
        task="paraphrase",
        language="ko",
        description="1,000 groups of ten questions or commands that say the same; the label is the group.",
        home="https://github.com/warnikchow/paraKQC",
        license="CC-BY-SA-4.0",
        citation="Cho et al. 2020, Discourse Component to Sentence (DC2S), LREC",
        default="all",
        splits={
            "all": Split(
                10_000,
                _github(
                    "parakqc/paraKQC_v1.txt",
                    "warnikchow/paraKQC",
                    "c16270fe6c2e888af07e7cb043248ad31d8a6f9c/data/paraKQC_v1.txt",
                    "8a40f48c78c2710e5e64c1fa3a1c3dc720cb21a92f2ff375e3097973ad57e6d6",
                ),
                _paraphrase_groups,
            )
        },
    ),
    Dataset(
        "nsmc",
        task="classification",
        language="ko",
        description="Naver movie reviews: negative or positive. The official split.",
        home="https://github.com/e9t/nsmc",
        license="CC0-1.0",
        citation="Park 2016, Naver sentiment movie corpus v1.0",
        splits={
            name: Split(
                rows,
                _github(
                    f"nsmc/ratings_{name}.txt",
                    "e9t/nsmc",
                    f"cc0670e872d4ac27bfe36c87456783004b39ef6c/ratings_{name}.txt",
                    sha256,
                ),
                _nsmc,
            )
            for name, rows, sha256 in (
                ("train", 150_000, "e03b7d14e9e41be8d464a28057cd25d7396c53e67aa7fd5f7e552c59b0ee2940"),
                ("test", 50_000, "8ac9f64052f11dbf6ae0acb5e038f03d90a76f0eda7820cfb3a92d02edfcebda"),
            )
        },
    ),
    Dataset(
        "nsmc-part",
        task="classification",
        language="ko",
        description="30,000 reviews of NSMC; its `valid` is a part of the official test. `nsmc` is the official whole.",
        home="https://github.com/e9t/nsmc",
        license="CC0-1.0",
        citation="Park 2016, Naver sentiment movie corpus v1.0",
        default="valid",
        how_to_get="use `nsmc` instead unless you have these files",
        splits={
            "valid": Split(25_000, (File("nsmc/ratings_valid.txt"),), _nsmc),
            "train": Split(5_000, (File("nsmc/ratings_train.txt"),), _nsmc),
        },
    ),
    Dataset(
        "ynat",
        task="classification",
        language="ko",
        description="News titles in seven topics: a copy of KLUE-YNAT's training titles.",
        home="https://github.com/KLUE-benchmark/KLUE",
        license="CC-BY-SA-4.0",
        citation=_PARK_ET_AL,
        default="train",
        how_to_get="the CSV copy with train_data.csv and topic_dict.csv",
        splits={
            "train": Split(45_654, (File("ynat/train_data.csv"), File("ynat/topic_dict.csv")), _titles_with_topics)
        },
    ),
    Dataset(
        "3i4k",
        task="classification",
        language="ko",
        description="Utterances by intention: fragment, statement, question, command, rhetorical ones, intonation.",
        home="https://github.com/warnikchow/3i4k",
        license="CC-BY-SA-4.0",
        citation="Cho et al. 2018, Speech Intention Understanding in a Head-final Language, arXiv:1811.04231",
        splits={
            "train": Split(
                55_134,
                _github(
                    "3i4k/fci_train_val.txt",
                    "warnikchow/3i4k",
                    "master/data/train_val_test/fci_train_val.txt",
                    "646f450b84992c6df806ea72aa35374db7ec30d7739920b86dfa878e73b69079",
                ),
                _3i4k,
            ),
            "test": Split(
                6_121,
                _github(
                    "3i4k/fci_test.txt",
                    "warnikchow/3i4k",
                    "master/data/train_val_test/fci_test.txt",
                    "d74c5b376c7d231bd4d5a94de855e47b6e70c96abeeaaf75cffbdb8506a87ff2",
                ),
                _3i4k,
            ),
        },
    ),
    Dataset(
        "beep",
        task="classification",
        language="ko",
        description="Comments on entertainment news: none, offensive, hate.",
        home="https://github.com/kocohub/korean-hate-speech",
        license="CC-BY-SA-4.0",
        citation="Moon et al. 2020, BEEP! Korean Corpus of Online News Comments for Toxic Speech Detection, SocialNLP",
        default="dev",
        splits={
            "train": Split(
                7_896,
                _github(
                    "beep/train.tsv",
                    "kocohub/korean-hate-speech",
                    "f8d05dce2b22007bb149e5139c0060c68ad8f94b/labeled/train.tsv",
                    "ebebacdcd023af2c4acc8c0a37695fb6433ac04fc009feff8f222724e303a5a9",
                ),
                _beep,
            ),
            "dev": Split(
                471,
                _github(
                    "beep/dev.tsv",
                    "kocohub/korean-hate-speech",
                    "f8d05dce2b22007bb149e5139c0060c68ad8f94b/labeled/dev.tsv",
                    "232b615d6e359a9d31dfb8370f32e1733dc5bb3f9c5430d34d7fcc7ba4b7e8ef",
                ),
                _beep,
            ),
        },
    ),
    Dataset(
        "sentineg",
        task="classification",
        language="ko",
        description="KoBEST SentiNeg: product reviews, negative or positive; the test set negates what was said.",
        home="https://github.com/SKT-LSL/KoBEST_datarepo",
        license="CC-BY-SA-4.0",
        citation="Kim et al. 2022, KOBEST: Korean Balanced Evaluation of Significant Tasks, COLING",
        splits={
            name: Split(
                rows,
                _github(
                    f"sentineg/{name}.tsv",
                    "SKT-LSL/KoBEST_datarepo",
                    f"2956e24d8d5de8bad263432480f740d0e2eeee43/v1.0/SentiNeg/{name}.tsv",
                    sha256,
                ),
                _sentineg,
            )
            for name, rows, sha256 in (
                ("train", 3_649, "07c8517ae035e400dc2ec8f9eb6a1d3c462c1758058c8f83ff4d1326eb80a5c7"),
                ("dev", 400, "a64c8f70d11930222b0a356871512680a9ca230721ced23ffd73e14cf0478b79"),
                ("test", 397, "7bec3d31ccebee0db4cfcedc7205cfd7d21603ecaec5327ce4a74eff54d0007d"),
            )
        },
    ),
    Dataset(
        "korean-wiki-text",
        task="corpus",
        language="ko",
        description="About a million sentences of Korean Wikipedia, what SimCSE-KO learns from without labels.",
        home="https://github.com/snumin44/SimCSE-KO",
        license="CC-BY-SA (text of Wikipedia; the release names none)",
        citation="SimCSE-KO, https://github.com/snumin44/SimCSE-KO",
        default="train",
        splits={
            "train": Split(
                None,  # the release gives neither a count nor a checksum
                (
                    File(
                        "korean-wiki-text/korean_wiki_1m.txt",
                        "https://github.com/snumin44/SimCSE-KO/releases/download/v1.0.0/korean_wiki_1m.txt",
                    ),
                ),
                reader(plain_lines(), sentence()),
            )
        },
    ),
    Dataset(
        "corpus",
        task="corpus",
        language="ko",
        description="Sentences without labels from reviews, documentation, comments and news.",
        home="gathered from 17 public sources by this project",
        license="CC0, CC-BY(-SA), Apache-2.0, MIT, BSD, MPL-2.0, public domain (by file)",
        citation="the sources of the single files",
        default="train",
        how_to_get="gzipped files of one sentence a line",
        splits={
            "train": Split(
                sum(_corpus_rows.values()), tuple(File(f"corpus/{name}.txt") for name in _corpus_rows), _corpus
            ),
            **{name: Split(rows, (File(f"corpus/{name}.txt"),), _corpus) for name, rows in _corpus_rows.items()},
        },
    ),
]


CATALOGUE: Mapping[str, Dataset] = {dataset.name: dataset for dataset in [*KOREAN, *ENGLISH]}
