"""Search in figures: the most similar pair, HNSW beside faiss and exact, and a million vectors in eight bits.

    KOSBERT_DATA=/path/to/data python benchmarks/search.py --model builtin       # real sentences: corpus/*.txt.gz
    python benchmarks/search.py --model random-words --rows 5000 --million 20000  # small, on the sample set's sentences

Parts (--part, all without it):
    pairs     the most similar pair among --pairs sentences, from text and from vectors
    ann       recall@10 and time a query of HNSW at several widths, beside faiss (pip install faiss-cpu) and exact; the
              ways take turns query by query, in one process, and the ratio to exact is given with its spread
    million   --million vectors in int8: build and answer in processes of their own, whose peak memory is reported
    retrieval find the other nine paraphrases among 10,000 sentences of ParaKQC, and what the premises of KLUE-NLI dev
              and XNLI-ko test entail among all hypotheses, by meaning, by words, by both

Sentences are encoded once. For `million` they are repeated with noise of a tenth of their length, because encoding a
million of them measures the model and not the index.
"""

import argparse
import gzip
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kosbert import data
from kosbert.model.topk import nearest_rows
from kosbert.search.backends.binary import BinaryBackend
from kosbert.search.backends.hnsw import CONNECTIVITY, EXPANSION_ADD, HnswBackend
from kosbert.search.encoding import load_encoder, unit_vectors
from kosbert.search.mining import most_similar_pairs

if TYPE_CHECKING:
    from kosbert.evaluation.retrieval import RetrievalScores

WIDTHS = (16, 32, 64, 128, 256)
Vectors = NDArray[np.float32]


class Given:
    """An encoder for vectors that are already there; its two sentences of identification are fixed."""

    def __init__(self, dim: int) -> None:
        self.dim = dim

    def encode(self, sentences: list[str]) -> Vectors:
        return np.stack([np.random.default_rng(len(each)).standard_normal(self.dim) for each in sentences]).astype("f4")


def sentences(count: int) -> list[str]:
    """Different sentences: of the corpus where KOSBERT_DATA has it, each file in turn; else of the sample set."""
    folder = Path(os.environ.get("KOSBERT_DATA", "")) / "corpus"
    found: dict[str, None] = {}
    sources: list[Iterator[str]] = [_lines(path) for path in sorted(folder.glob("*.txt.gz"))]
    if not sources:
        rows = [row for split in ("sts-train", "nli-train") for row in data.load(f"sample-{split}")]
        sources = [iter([text for row in rows for text in data.sentences_of(row)])]
    while sources and len(found) < count:
        for source in list(sources):
            line = next(source, None)
            if line is None:
                sources.remove(source)
            elif 10 <= len(line) <= 200 and len(found) < count:
                found[line] = None
    if len(found) < count:
        print(f"only {len(found):,} different sentences are here, not {count:,}")
    return list(found)


def _lines(path: Path) -> Iterator[str]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            yield line.strip()


def timed(work: Callable[[], object]) -> tuple[float, object]:
    started = time.perf_counter()
    result = work()
    return time.perf_counter() - started, result


def pairs(texts: list[str], encoder: object, repeats: int) -> None:
    print(f"\n## The most similar pair among {len(texts):,} sentences\n")
    encoding, vectors = timed(lambda: unit_vectors(encoder, texts))  # type: ignore[arg-type]
    times = [timed(lambda: most_similar_pairs(vectors, 1))[0] for _ in range(repeats)]  # type: ignore[arg-type]
    (best,) = most_similar_pairs(vectors, 1)  # type: ignore[arg-type]
    print("| from | seconds |\n|---|---|")
    print(f"| text (encoding included) | {encoding + np.median(times):.2f} |")
    print(f"| vectors | {np.median(times):.3f} ({min(times):.3f} to {max(times):.3f}, {repeats} runs) |")
    print(f"\ncosine {best.cosine:.4f}: {texts[best.first]} / {texts[best.second]}")


def ann(vectors: Vectors, queries: Vectors) -> None:
    print(f"\n## Ten nearest of {len(vectors):,} vectors of {vectors.shape[1]} dimensions, {len(queries)} queries\n")
    truth = nearest_rows(queries, vectors, 10)[0]
    ways: dict[str, Callable[[Vectors], NDArray[np.int64]]] = {
        "exact": lambda query: nearest_rows(query, vectors, 10)[0]
    }
    size = {"exact": vectors.nbytes / 2**20}
    built = {"exact": 0.0}
    keys = np.arange(len(vectors))
    for precision in ("float32", "float16", "int8"):
        store = HnswBackend(vectors.shape[1], precision)
        seconds, _ = timed(lambda store=store: store.add(keys, vectors))  # type: ignore[misc]
        with tempfile.TemporaryDirectory() as folder:
            store.write(Path(folder))
            written = sum(file.stat().st_size for file in Path(folder).iterdir()) / 2**20
        for width in WIDTHS:
            name = f"usearch {precision}, width {width}"
            built[name], size[name] = seconds, written
            ways[name] = _usearch_at(store, width)
    bits = BinaryBackend(vectors.shape[1])
    built["bits, rescored"], _ = timed(lambda: bits.add(keys, vectors))
    size["bits, rescored"] = (len(vectors) * vectors.shape[1] / 8) / 2**20  # and eight times that on disk
    ways["bits, rescored"] = lambda query: bits.search(query, 10, None)[0]
    _faiss(vectors, ways, built, size)
    times: dict[str, list[float]] = {name: [] for name in ways}
    hits = dict.fromkeys(ways, 0)
    for query, expected in zip(queries, truth, strict=True):
        for name, way in ways.items():
            seconds, found = timed(lambda way=way, query=query: way(query[None]))  # type: ignore[misc]
            times[name].append(seconds * 1_000)
            hits[name] += len(set(np.asarray(found)[0].tolist()) & set(expected.tolist()))
    print("| way | recall@10 | p50 ms | p95 ms | times as fast as exact (p5 to p95) | built in s | MiB |")
    print("|---|---|---|---|---|---|---|")
    exact = np.array(times["exact"])
    for name in ways:
        here = np.array(times[name])
        ratio = np.percentile(exact / here, (5, 50, 95))
        print(
            f"| {name} | {hits[name] / truth.size:.4f} | {np.median(here):.3f} | {np.percentile(here, 95):.3f} "
            f"| {ratio[1]:.1f} ({ratio[0]:.1f} to {ratio[2]:.1f}) | {built[name]:.1f} | {size[name]:.0f} |"
        )


def _usearch_at(store: HnswBackend, width: int) -> Callable[[Vectors], NDArray[np.int64]]:
    def search(query: Vectors) -> NDArray[np.int64]:
        store._graph.expansion_search = width  # what `search` would set for its own k
        return np.atleast_2d(store._graph.search(store._quantize(query), 10).keys).astype(np.int64)

    return search


def _faiss(vectors: Vectors, ways: dict, built: dict[str, float], size: dict[str, float]) -> None:
    try:
        import faiss
    except ImportError:
        print("(faiss is not installed: not measured)\n")
        return
    flat = faiss.IndexFlatIP(vectors.shape[1])
    built["faiss exact"], _ = timed(lambda: flat.add(vectors))
    size["faiss exact"] = vectors.nbytes / 2**20
    ways["faiss exact"] = lambda query: flat.search(query, 10)[1]
    graph = faiss.IndexHNSWFlat(vectors.shape[1], CONNECTIVITY, faiss.METRIC_INNER_PRODUCT)
    graph.hnsw.efConstruction = EXPANSION_ADD
    seconds, _ = timed(lambda: graph.add(vectors))
    written = len(faiss.serialize_index(graph)) / 2**20

    def at(width: int) -> Callable[[Vectors], NDArray[np.int64]]:
        def search(query: Vectors) -> NDArray[np.int64]:
            graph.hnsw.efSearch = width
            return graph.search(query, 10)[1]

        return search

    for width in WIDTHS:
        name = f"faiss float32, width {width}"
        ways[name], built[name], size[name] = at(width), seconds, written


def million(vectors: Vectors, texts: list[str], count: int, queries: int) -> None:
    print(f"\n## {count:,} vectors of {vectors.shape[1]} dimensions in int8, sentences and ids included\n")
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        np.save(base / "vectors.npy", vectors)
        (base / "texts.txt").write_text("\n".join(texts), encoding="utf-8")
        print("| step | figures | peak memory MiB |\n|---|---|---|")
        for step in ("build", "answer"):
            command = [sys.executable, __file__, "--child", step, folder, str(count), str(queries)]
            done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
            if done.returncode:
                sys.exit(done.stderr)
            print(done.stdout, end="")


def child(step: str, folder: Path, count: int, queries: int) -> None:
    """A step of `million`, in a process of its own."""
    import resource

    from kosbert.search import Index

    vectors = np.load(folder / "vectors.npy", mmap_mode="r")
    encoder = Given(vectors.shape[1])
    if step == "build":
        texts = (folder / "texts.txt").read_text(encoding="utf-8").split("\n")
        generator = np.random.default_rng(0)
        index = Index(encoder, backend="hnsw", precision="int8")
        started = time.perf_counter()
        for start in range(0, count, 50_000):
            places = np.arange(start, min(start + 50_000, count)) % len(vectors)
            noise = generator.standard_normal((len(places), vectors.shape[1]), dtype=np.float32)
            noise *= 0.1 / np.sqrt(vectors.shape[1])
            index.add([texts[place] for place in places], vectors=vectors[places] + noise)
        index.save(folder / "index")
        seconds = time.perf_counter() - started
        size = sum(file.stat().st_size for file in (folder / "index").rglob("*") if file.is_file()) / 2**20
        figures = f"{seconds:.0f} s, {size:.0f} MiB on disk"
    else:
        started = time.perf_counter()
        index = Index.load(folder / "index", encoder)
        opened = time.perf_counter() - started
        times = [timed(lambda row=row: index.query(vectors[row][None], 10))[0] for row in range(queries)]  # type: ignore[misc]
        figures = f"opened in {opened:.2f} s, p50 {np.median(times) * 1000:.2f} ms over {queries} queries"
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**10 if sys.platform != "darwin" else 2**20)
    print(f"| {step} | {figures} | {peak:.0f} |")


def retrieval(encoder: object) -> None:
    from kosbert.evaluation.retrieval import evaluate_retrieval, load_task
    from kosbert.search.index_evaluation import rank_hybrid

    task = load_task("parakqc")
    print(f"\n## The other nine paraphrases among {len(task.corpus):,} sentences of ParaKQC\n")
    _print_scores(evaluate_retrieval(encoder, task, ranker=rank_hybrid))  # type: ignore[arg-type]
    for name, split in (("klue-nli", "klue-nli-dev"), ("kornli", "kornli-test")):
        print(f"\n## What each premise of {split} entails, among all hypotheses\n")
        _print_scores(evaluate_retrieval(encoder, load_task(name), ranker=rank_hybrid))  # type: ignore[arg-type]


def _print_scores(results: "dict[str, RetrievalScores]") -> None:
    for number, (method, scores) in enumerate(results.items()):
        if not number:
            print(f"| method ({scores.queries:,} queries) | {' | '.join(scores.metrics)} |")
            print(f"|---{'|---' * len(scores.metrics)}|")
        print(f"| {method} | {' | '.join(f'{value:.4f}' for value in scores.metrics.values())} |")


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        step, folder, count, queries = sys.argv[2:]
        child(step, Path(folder), int(count), int(queries))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="builtin")
    parser.add_argument("--part", nargs="*", default=["pairs", "ann", "million", "retrieval"])
    parser.add_argument("--rows", type=int, default=100_000, help="sentences of `ann` and below `million`")
    parser.add_argument("--pairs", type=int, default=10_000)
    parser.add_argument("--million", type=int, default=1_000_000)
    parser.add_argument("--queries", type=int, default=500)
    parser.add_argument("--repeats", type=int, default=5)
    wanted = parser.parse_args()
    encoder = load_encoder(wanted.model)
    threads = os.environ.get("OMP_NUM_THREADS", "unset")
    print(f"model {wanted.model}, {os.cpu_count()} processors, OMP_NUM_THREADS={threads}")
    texts = sentences(max(wanted.rows + wanted.queries, wanted.pairs))
    if "pairs" in wanted.part:
        pairs(texts[: wanted.pairs], encoder, wanted.repeats)
    if {"ann", "million"} & set(wanted.part):
        vectors = unit_vectors(encoder, texts[: wanted.rows + wanted.queries])
        # The queries are sentences that are not in the index.
        held_out = min(wanted.queries, len(vectors) // 10)
        if "ann" in wanted.part:
            ann(np.ascontiguousarray(vectors[:-held_out]), np.ascontiguousarray(vectors[-held_out:]))
        if "million" in wanted.part:
            million(vectors[:-held_out], texts[: len(vectors) - held_out], wanted.million, held_out)
    if "retrieval" in wanted.part:
        retrieval(encoder)


if __name__ == "__main__":
    main()
