"""Measure search: the most similar pair, HNSW against faiss and exact search, a million vectors, retrieval quality.

    KOSBERT_DATA=/path/to/data python benchmarks/search.py --model builtin        # real sentences: corpus/*.txt.gz
    python benchmarks/search.py --model random-words --rows 5000 --million 20000 --part pairs ann million   # quick

Parts (--part; default: all):
    pairs     the most similar pair among --pairs sentences, from text and from vectors
    ann       recall@10 and latency of HNSW at several search widths (ef), against faiss (pip install faiss-cpu) and
              exact search; the indexes alternate query by query in one process
    million   --million vectors in int8: build and query, each in its own process, with peak memory
    retrieval dense, BM25 and hybrid: find the other nine paraphrases among 10,000 sentences of ParaKQC, and the
              hypotheses that each premise of KLUE-NLI dev and XNLI-ko test entails

Sentences are encoded once. `million` repeats their vectors with Gaussian noise of norm 0.1, because encoding a million
sentences would measure the model and not the index. Without KOSBERT_DATA the sample set is used (not for `retrieval`).
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
from kosbert.model import load_any
from kosbert.model.topk import nearest_rows
from kosbert.search.backends.binary import BinaryBackend
from kosbert.search.backends.hnsw import CONNECTIVITY, EXPANSION_ADD, HnswBackend
from kosbert.search.encoding import unit_vectors
from kosbert.search.mining import most_similar_pairs

if TYPE_CHECKING:
    from kosbert.evaluation.retrieval import RetrievalScores

EF_SEARCH = (16, 32, 64, 128, 256)
Vectors = NDArray[np.float32]


class StubEncoder:
    """Encoder for an index of precomputed vectors; only the sentences of the model fingerprint are encoded."""

    def __init__(self, dim: int) -> None:
        self.dim = dim

    def encode(self, sentences: list[str]) -> Vectors:
        return np.stack([np.random.default_rng(len(text)).standard_normal(self.dim) for text in sentences]).astype("f4")


def sentences(count: int) -> list[str]:
    """Return distinct sentences, round-robin over the corpus files in KOSBERT_DATA, or from the sample set."""
    directory = Path(os.environ.get("KOSBERT_DATA", "")) / "corpus"
    distinct: dict[str, None] = {}
    sources: list[Iterator[str]] = [_lines(path) for path in sorted(directory.glob("*.txt.gz"))]
    if not sources:
        rows = [row for split in ("sts-train", "nli-train") for row in data.load(f"sample-{split}")]
        sources = [iter([text for row in rows for text in data.sentences_of(row)])]
    while sources and len(distinct) < count:
        for source in list(sources):
            line = next(source, None)
            if line is None:
                sources.remove(source)
            elif 10 <= len(line) <= 200 and len(distinct) < count:
                distinct[line] = None
    if len(distinct) < count:
        print(f"only {len(distinct):,} distinct sentences are available, not {count:,}")
    return list(distinct)


def _lines(path: Path) -> Iterator[str]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            yield line.strip()


def timed(function: Callable[[], object]) -> tuple[float, object]:
    start = time.perf_counter()
    result = function()
    return time.perf_counter() - start, result


def pairs(texts: list[str], encoder: object, repeats: int) -> None:
    print(f"\n## Most similar pair among {len(texts):,} sentences\n")
    encode_seconds, vectors = timed(lambda: unit_vectors(encoder, texts))  # type: ignore[arg-type]
    times = [timed(lambda: most_similar_pairs(vectors, 1))[0] for _ in range(repeats)]  # type: ignore[arg-type]
    (best,) = most_similar_pairs(vectors, 1)  # type: ignore[arg-type]
    print("| from | seconds |\n|---|---|")
    print(f"| text (including encoding) | {encode_seconds + np.median(times):.2f} |")
    print(f"| vectors | {np.median(times):.3f} ({min(times):.3f} to {max(times):.3f}, {repeats} runs) |")
    print(f"\ncosine {best.cosine:.4f}: {texts[best.first]} / {texts[best.second]}")


def ann(vectors: Vectors, queries: Vectors) -> None:
    print(f"\n## Top 10 of {len(vectors):,} vectors of {vectors.shape[1]} dimensions, {len(queries)} queries\n")
    exact_keys = nearest_rows(queries, vectors, 10)[0]
    indexes: dict[str, Callable[[Vectors], NDArray[np.int64]]] = {
        "exact": lambda query: nearest_rows(query, vectors, 10)[0]
    }
    mebibytes = {"exact": vectors.nbytes / 2**20}
    build_seconds = {"exact": 0.0}
    keys = np.arange(len(vectors))
    for precision in ("float32", "float16", "int8"):
        backend = HnswBackend(vectors.shape[1], precision)
        seconds, _ = timed(lambda backend=backend: backend.add(keys, vectors))  # type: ignore[misc]
        with tempfile.TemporaryDirectory() as directory:
            backend.write(Path(directory))
            file_size = sum(path.stat().st_size for path in Path(directory).iterdir()) / 2**20
        for width in EF_SEARCH:
            name = f"usearch {precision}, ef {width}"
            build_seconds[name], mebibytes[name] = seconds, file_size
            indexes[name] = _usearch_at(backend, width)
    bits = BinaryBackend(vectors.shape[1])
    build_seconds["binary, rescored"], _ = timed(lambda: bits.add(keys, vectors))
    mebibytes["binary, rescored"] = (len(vectors) * vectors.shape[1] / 8) / 2**20  # and eight times that on disk
    indexes["binary, rescored"] = lambda query: bits.search(query, 10, None)[0]
    _faiss(vectors, indexes, build_seconds, mebibytes)
    latencies: dict[str, list[float]] = {name: [] for name in indexes}
    hits = dict.fromkeys(indexes, 0)
    for query, expected in zip(queries, exact_keys, strict=True):
        for name, search in indexes.items():
            seconds, keys_found = timed(lambda search=search, query=query: search(query[None]))  # type: ignore[misc]
            latencies[name].append(seconds * 1_000)
            hits[name] += len(set(np.asarray(keys_found)[0].tolist()) & set(expected.tolist()))
    print("| index | recall@10 | p50 ms | p95 ms | speedup over exact (p5 to p95) | build s | MiB |")
    print("|---|---|---|---|---|---|---|")
    exact = np.array(latencies["exact"])
    for name in indexes:
        latency = np.array(latencies[name])
        speedup = np.percentile(exact / latency, (5, 50, 95))
        print(
            f"| {name} | {hits[name] / exact_keys.size:.4f} | {np.median(latency):.3f} "
            f"| {np.percentile(latency, 95):.3f} | {speedup[1]:.1f} ({speedup[0]:.1f} to {speedup[2]:.1f}) "
            f"| {build_seconds[name]:.1f} | {mebibytes[name]:.0f} |"
        )


def _usearch_at(backend: HnswBackend, width: int) -> Callable[[Vectors], NDArray[np.int64]]:
    def search(query: Vectors) -> NDArray[np.int64]:
        backend._graph.expansion_search = width  # `search` sets it from k
        return np.atleast_2d(backend._graph.search(backend._quantize(query), 10).keys).astype(np.int64)

    return search


def _faiss(vectors: Vectors, indexes: dict, build_seconds: dict[str, float], mebibytes: dict[str, float]) -> None:
    try:
        import faiss
    except ImportError:
        print("(faiss is not installed: not measured)\n")
        return
    flat = faiss.IndexFlatIP(vectors.shape[1])
    build_seconds["faiss exact"], _ = timed(lambda: flat.add(vectors))
    mebibytes["faiss exact"] = vectors.nbytes / 2**20
    indexes["faiss exact"] = lambda query: flat.search(query, 10)[1]
    graph = faiss.IndexHNSWFlat(vectors.shape[1], CONNECTIVITY, faiss.METRIC_INNER_PRODUCT)
    graph.hnsw.efConstruction = EXPANSION_ADD
    seconds, _ = timed(lambda: graph.add(vectors))
    file_size = len(faiss.serialize_index(graph)) / 2**20

    def search_at(width: int) -> Callable[[Vectors], NDArray[np.int64]]:
        def search(query: Vectors) -> NDArray[np.int64]:
            graph.hnsw.efSearch = width
            return graph.search(query, 10)[1]

        return search

    for width in EF_SEARCH:
        name = f"faiss float32, ef {width}"
        indexes[name], build_seconds[name], mebibytes[name] = search_at(width), seconds, file_size


def million(vectors: Vectors, texts: list[str], count: int, queries: int) -> None:
    print(f"\n## {count:,} vectors of {vectors.shape[1]} dimensions in int8, with sentences and ids\n")
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary)
        np.save(directory / "vectors.npy", vectors)
        (directory / "texts.txt").write_text("\n".join(texts), encoding="utf-8")
        print("| step | result | peak memory MiB |\n|---|---|---|")
        for step in ("build", "query"):
            command = [sys.executable, __file__, "--child", step, temporary, str(count), str(queries)]
            result = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
            if result.returncode:
                sys.exit(result.stderr)
            print(result.stdout, end="")


def child(step: str, directory: Path, count: int, queries: int) -> None:
    """Run one step of `million` in this process and print its row."""
    import resource

    from kosbert.search import Index

    vectors = np.load(directory / "vectors.npy", mmap_mode="r")
    encoder = StubEncoder(vectors.shape[1])
    if step == "build":
        texts = (directory / "texts.txt").read_text(encoding="utf-8").split("\n")
        generator = np.random.default_rng(0)
        index = Index(encoder, backend="hnsw", precision="int8")
        start = time.perf_counter()
        for first in range(0, count, 50_000):
            rows = np.arange(first, min(first + 50_000, count)) % len(vectors)
            noise = generator.standard_normal((len(rows), vectors.shape[1]), dtype=np.float32)
            noise *= 0.1 / np.sqrt(vectors.shape[1])
            index.add([texts[row] for row in rows], vectors=vectors[rows] + noise)
        index.save(directory / "index")
        seconds = time.perf_counter() - start
        size = sum(path.stat().st_size for path in (directory / "index").rglob("*") if path.is_file()) / 2**20
        result = f"{seconds:.0f} s, {size:.0f} MiB on disk"
    else:
        start = time.perf_counter()
        index = Index.load(directory / "index", encoder)
        open_seconds = time.perf_counter() - start
        times = [timed(lambda row=row: index.query(vectors[row][None], 10))[0] for row in range(queries)]  # type: ignore[misc]
        result = f"opened in {open_seconds:.2f} s, p50 {np.median(times) * 1000:.2f} ms over {queries} queries"
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**10 if sys.platform != "darwin" else 2**20)
    print(f"| {step} | {result} | {peak:.0f} |")


def retrieval(encoder: object) -> None:
    from kosbert.evaluation.retrieval import evaluate_retrieval, load_task
    from kosbert.search.index_evaluation import rank_hybrid

    task = load_task("parakqc")
    print(f"\n## ParaKQC: find the other nine paraphrases among {len(task.corpus):,} sentences\n")
    _print_scores(evaluate_retrieval(encoder, task, ranker=rank_hybrid))  # type: ignore[arg-type]
    for name, split in (("klue-nli", "klue-nli-dev"), ("kornli", "kornli-test")):
        print(f"\n## {split}: find the entailed hypotheses of each premise among all hypotheses\n")
        _print_scores(evaluate_retrieval(encoder, load_task(name), ranker=rank_hybrid))  # type: ignore[arg-type]


def _print_scores(results: "dict[str, RetrievalScores]") -> None:
    for number, (method, scores) in enumerate(results.items()):
        if not number:
            print(f"| method ({scores.queries:,} queries) | {' | '.join(scores.metrics)} |")
            print(f"|---{'|---' * len(scores.metrics)}|")
        print(f"| {method} | {' | '.join(f'{value:.4f}' for value in scores.metrics.values())} |")


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        step, directory, count, queries = sys.argv[2:]
        child(step, Path(directory), int(count), int(queries))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="builtin")
    parser.add_argument("--part", nargs="*", default=["pairs", "ann", "million", "retrieval"])
    parser.add_argument("--rows", type=int, default=100_000, help="sentences for `ann` and `million`")
    parser.add_argument("--pairs", type=int, default=10_000)
    parser.add_argument("--million", type=int, default=1_000_000)
    parser.add_argument("--queries", type=int, default=500)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    encoder = load_any(options.model)
    threads = os.environ.get("OMP_NUM_THREADS", "unset")
    print(f"model {options.model}, {os.cpu_count()} processors, OMP_NUM_THREADS={threads}")
    texts = sentences(max(options.rows + options.queries, options.pairs))
    if "pairs" in options.part:
        pairs(texts[: options.pairs], encoder, options.repeats)
    if {"ann", "million"} & set(options.part):
        vectors = unit_vectors(encoder, texts[: options.rows + options.queries])
        # Queries are not in the index.
        held_out = min(options.queries, len(vectors) // 10)
        if "ann" in options.part:
            ann(np.ascontiguousarray(vectors[:-held_out]), np.ascontiguousarray(vectors[-held_out:]))
        if "million" in options.part:
            million(vectors[:-held_out], texts[: len(vectors) - held_out], options.million, held_out)
    if "retrieval" in options.part:
        retrieval(encoder)


if __name__ == "__main__":
    main()
