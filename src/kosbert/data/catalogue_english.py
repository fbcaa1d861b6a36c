"""The English data sets of the Sentence-BERT paper: SNLI and MultiNLI, seven STS sets, seven transfer tasks."""

from dataclasses import replace

from kosbert.data.readers import NLI_LABELS, labeled, labeled_pair, one_file_per_class, reader, scored, sts_year, trec
from kosbert.data.registry import Dataset, File, Split
from kosbert.data.tables import JSONL, TSV

_RESEARCH = "research use; see the home page"
_BY_SENTEVAL = "the SentEval pack that SimCSE's authors publish, unpacked as senteval/"
_SENTEVAL_HOME = "https://github.com/facebookresearch/SentEval"


def _files(*names: str) -> tuple[File, ...]:
    return tuple(File(f"senteval/{name}") for name in names)


def _transfer(name: str, description: str, citation: str, splits: dict[str, Split], default: str = "test") -> Dataset:
    """Return a transfer task in SentEval's layout."""
    return Dataset(
        name,
        task="classification",
        language="en",
        description=description,
        home=_SENTEVAL_HOME,
        license=_RESEARCH,
        citation=citation,
        default=default,
        how_to_get=_BY_SENTEVAL,
        splits=splits,
    )


def _one_file_per_class(name: str, description: str, citation: str, rows: int, files: dict[str, str]) -> Dataset:
    """Return MR, CR, SUBJ or MPQA: they have no splits, so SentEval scores them by nested cross-validation."""
    read = one_file_per_class(tuple(files), encoding="cp1252")
    splits = {"all": Split(rows, _files(*files.values()), read)}
    return _transfer(name, description, citation, splits, default="all")


def _sts_year(name: str, rows: int, subtasks: tuple[str, ...], citation: str) -> Dataset:
    """Return one year of the SemEval STS task; its sub-tasks are the `source` of the pairs."""
    directory = f"STS/{name.upper()}-en-test"
    files = _files(*(f"{directory}/STS.{kind}.{subtask}.txt" for subtask in subtasks for kind in ("input", "gs")))
    return Dataset(
        name,
        task="sts",
        language="en",
        description=f"SemEval 20{name[-2:]} semantic textual similarity: {', '.join(subtasks)}.",
        home=_SENTEVAL_HOME,
        license=_RESEARCH,
        citation=citation,
        how_to_get=_BY_SENTEVAL,
        splits={"test": Split(rows, files, sts_year)},
    )


_stsb = reader(
    replace(TSV, header=("genre", "filename", "year", "id", "score", "sentence1", "sentence2"), allow_extra_cells=True),
    scored(source="filename"),
)
_sick = reader(TSV, scored("sentence_A", "sentence_B", "relatedness_score"))
_SICK = {"train": "SICK_train.txt", "dev": "SICK_trial.txt", "test": "SICK_test_annotated.txt"}
_sst = reader(replace(TSV, header=("text", "label")), labeled(labels={"0": "negative", "1": "positive"}))
_mrpc = reader(TSV, labeled_pair("#1 String", "#2 String", "Quality", labels=("0", "1")))
_nli = reader(JSONL, labeled_pair(label="gold_label", labels=(*NLI_LABELS, "-")))


def _nli_archive(url: str, sha256: str, corpus: str, splits: dict[str, tuple[str, int]]) -> dict[str, Split]:
    """Return the splits in one zip file; rows keep the label `-` where the annotators reached no majority."""
    return {
        name: Split(rows, (File(f"{corpus}/{member}", url, f"sha256:{sha256}", f"{corpus}_1.0/{member}"),), _nli)
        for name, (member, rows) in splits.items()
    }


ENGLISH = [
    Dataset(
        "snli",
        task="nli",
        language="en",
        description="Stanford NLI on image captions; half of the training data of Sentence-BERT.",
        home="https://nlp.stanford.edu/projects/snli/",
        license="CC-BY-SA-4.0",
        citation="Bowman et al. 2015, A large annotated corpus for learning natural language inference, EMNLP",
        splits=_nli_archive(
            "https://nlp.stanford.edu/projects/snli/snli_1.0.zip",
            "afb3d70a5af5d8de0d9d81e2637e0fb8c22d1235c2749d83125ca43dab0dbd3e",
            "snli",
            {
                "train": ("snli_1.0_train.jsonl", 550_152),
                "dev": ("snli_1.0_dev.jsonl", 10_000),
                "test": ("snli_1.0_test.jsonl", 10_000),
            },
        ),
    ),
    Dataset(
        "multinli",
        task="nli",
        language="en",
        description="NLI over ten spoken and written genres; the other half of the training data of Sentence-BERT.",
        home="https://cims.nyu.edu/~sbowman/multinli/",
        license="OANC, CC-BY-SA-3.0, CC-BY-3.0 (by genre)",
        citation="Williams et al. 2018, A Broad-Coverage Challenge Corpus for Sentence Understanding, NAACL",
        default="dev-matched",
        splits=_nli_archive(
            "https://cims.nyu.edu/~sbowman/multinli/multinli_1.0.zip",
            "049f507b9e36b1fcb756cfd5aeb3b7a0cfcb84bf023793652987f7e7e0957822",
            "multinli",
            {
                "train": ("multinli_1.0_train.jsonl", 392_702),
                "dev-matched": ("multinli_1.0_dev_matched.jsonl", 10_000),
                "dev-mismatched": ("multinli_1.0_dev_mismatched.jsonl", 10_000),
            },
        ),
    ),
    _sts_year(
        "sts12",
        3108,
        ("MSRpar", "MSRvid", "SMTeuroparl", "surprise.OnWN", "surprise.SMTnews"),
        "Agirre et al. 2012, SemEval-2012 Task 6, SemEval",
    ),
    _sts_year("sts13", 1500, ("FNWN", "headlines", "OnWN"), "Agirre et al. 2013, *SEM 2013 shared task, *SEM"),
    _sts_year(
        "sts14",
        3750,
        ("deft-forum", "deft-news", "headlines", "images", "OnWN", "tweet-news"),
        "Agirre et al. 2014, SemEval-2014 Task 10, SemEval",
    ),
    _sts_year(
        "sts15",
        3000,
        ("answers-forums", "answers-students", "belief", "headlines", "images"),
        "Agirre et al. 2015, SemEval-2015 Task 2, SemEval",
    ),
    _sts_year(
        "sts16",
        1186,
        ("answer-answer", "headlines", "plagiarism", "postediting", "question-question"),
        "Agirre et al. 2016, SemEval-2016 Task 1, SemEval",
    ),
    Dataset(
        "stsb",
        task="sts",
        language="en",
        description="The STS benchmark: a selection of STS12 to STS17, scored 0 to 5.",
        home="https://ixa2.si.ehu.eus/stswiki",
        license=_RESEARCH,
        citation="Cer et al. 2017, SemEval-2017 Task 1: Semantic Textual Similarity, SemEval",
        how_to_get=_BY_SENTEVAL,
        splits={
            name: Split(rows, _files(f"STS/STSBenchmark/sts-{name}.csv"), _stsb)
            for name, rows in (("train", 5749), ("dev", 1500), ("test", 1379))
        },
    ),
    Dataset(
        "sick-r",
        task="sts",
        language="en",
        description="SICK relatedness, 1 to 5; `all` is what tables of unsupervised STS report.",
        home="https://zenodo.org/record/2787612",
        license="CC-BY-NC-SA-3.0",
        citation="Marelli et al. 2014, A SICK cure for the evaluation of compositional semantic models, LREC",
        default="all",
        how_to_get=_BY_SENTEVAL,
        splits={
            **{
                name: Split(rows, _files(f"SICK/{_SICK[name]}"), _sick)
                for name, rows in (("train", 4500), ("dev", 500), ("test", 4927))
            },
            "all": Split(9927, _files(*(f"SICK/{file}" for file in _SICK.values())), _sick),
        },
    ),
    _one_file_per_class(
        "mr",
        "Movie review sentences: negative or positive.",
        "Pang and Lee 2005, Seeing stars, ACL",
        10_662,
        {"negative": "MR/rt-polarity.neg", "positive": "MR/rt-polarity.pos"},
    ),
    _one_file_per_class(
        "cr",
        "Customer reviews: negative or positive.",
        "Hu and Liu 2004, Mining and summarizing customer reviews, KDD",
        3_775,
        {"negative": "CR/custrev.neg", "positive": "CR/custrev.pos"},
    ),
    _one_file_per_class(
        "subj",
        "Objective plot summaries or subjective reviews.",
        "Pang and Lee 2004, A sentimental education, ACL",
        10_000,
        {"objective": "SUBJ/subj.objective", "subjective": "SUBJ/subj.subjective"},
    ),
    _one_file_per_class(
        "mpqa",
        "Phrases with a negative or positive opinion.",
        "Wiebe et al. 2005, Annotating expressions of opinions and emotions in language, LRE",
        10_606,
        {"negative": "MPQA/mpqa.neg", "positive": "MPQA/mpqa.pos"},
    ),
    _transfer(
        "sst",
        "Stanford sentiment treebank, two classes, with phrases in train.",
        "Socher et al. 2013, Recursive deep models for semantic compositionality over a sentiment treebank, EMNLP",
        {
            name: Split(rows, _files(f"SST/binary/sentiment-{name}"), _sst)
            for name, rows in (("train", 67_349), ("dev", 872), ("test", 1_821))
        },
    ),
    _transfer(
        "trec",
        "Questions by type of answer: six classes.",
        "Li and Roth 2002, Learning question classifiers, COLING",
        {
            "train": Split(5_452, _files("TREC/train_5500.label"), trec),
            "test": Split(500, _files("TREC/TREC_10.label"), trec),
        },
    ),
    Dataset(
        "mrpc",
        task="paraphrase",
        language="en",
        description="Microsoft paraphrase corpus: whether two news sentences mean the same.",
        home=_SENTEVAL_HOME,
        license=_RESEARCH,
        citation="Dolan et al. 2004, Unsupervised construction of large paraphrase corpora, COLING",
        how_to_get=_BY_SENTEVAL,
        splits={
            name: Split(rows, _files(f"MRPC/msr_paraphrase_{name}.txt"), _mrpc)
            for name, rows in (("train", 4_076), ("test", 1_725))
        },
    ),
]
