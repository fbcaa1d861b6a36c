"""Measure `kosbert serve` against a plain FastAPI + sentence-transformers server without batching, with the same model.

    python benchmarks/serving.py --model builtin                                    # minutes
    python benchmarks/serving.py --model DIR --plain DIR --requests 200 --rounds 1  # --plain: torch weights
    python benchmarks/serving.py --model builtin --part soak --minutes 10           # memory of the server over time
    python benchmarks/serving.py --requests 64 --rounds 1 --many 100                # quick

Parts (--part; default: all but soak):
    speed      32 clients and 1 client, one sentence per request: throughput, p50 and p99; the servers alternate
    overhead   one client, one sentence: p50 of the server minus p50 of `encode`, alternating call by call
    many       --many requests of mixed lengths, some from slow clients: number of wrong and lost responses
    soak       requests for --minutes, with the server's memory every half minute

Each server runs in its own process. The clients run in this one with a minimal HTTP implementation, because both sides
share the cores. A response is wrong if it differs by more than 1e-5 from encoding each text alone.
"""

import argparse
import asyncio
import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

import kosbert
from kosbert import data


@dataclass
class LoadResult:
    """Result of sending requests from a number of clients."""

    seconds: float
    latencies: NDArray[np.float64]  # seconds per request
    bodies: dict[int, bytes]
    lost: int

    @property
    def rate(self) -> float:
        return len(self.latencies) / self.seconds


def plain_server(model: str) -> None:
    """Run the usual minimal server: one `encode` call per request."""
    import uvicorn
    from fastapi import FastAPI
    from pydantic import BaseModel
    from sentence_transformers import SentenceTransformer

    encoder = SentenceTransformer(model, device="cpu")
    app = FastAPI()

    class Body(BaseModel):
        inputs: str | list[str]

    @app.get("/ready")
    def ready() -> dict[str, str]:
        return {}

    @app.post("/embed")
    def embed(body: Body) -> list[list[float]]:
        texts = [body.inputs] if isinstance(body.inputs, str) else body.inputs
        return encoder.encode(texts, normalize_embeddings=True).tolist()

    import socket

    listener = socket.create_server(("127.0.0.1", 0))
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # as uvicorn does when it binds the socket
    print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="error")).run([listener])


@contextlib.contextmanager
def server(*command: str) -> Iterator[tuple[str, int, int]]:
    """Start a server process; yield host, port and process id."""
    process = subprocess.Popen([sys.executable, *command], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        words = process.stdout.readline().split()
        if not words:
            sys.exit(f"the server did not start: {' '.join(command)}")
        url = urlsplit(words[-1])
        assert url.hostname is not None
        assert url.port is not None
        asyncio.run(wait_until_ready(url.hostname, url.port))
        yield url.hostname, url.port, process.pid
    finally:
        process.terminate()
        process.wait()


async def wait_until_ready(host: str, port: int) -> None:
    while True:
        with contextlib.suppress(OSError):
            reader, writer = await asyncio.open_connection(host, port)
            writer.write(b"GET /ready HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n")
            line = await reader.readline()
            writer.close()
            if b" 200 " in line:
                return
        await asyncio.sleep(0.1)


def request(texts: Sequence[str]) -> bytes:
    body = json.dumps({"inputs": list(texts)}, ensure_ascii=False).encode()
    head = (
        f"POST /embed HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
    )
    return f"{head}\r\n".encode() + body


async def exchange(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, message: bytes, *, slow: bool) -> bytes:
    """Send a request and return the body of the response; a slow client pauses before the last 10 bytes."""
    if slow:
        split = len(message) - 10
        writer.write(message[:split])
        await writer.drain()
        await asyncio.sleep(0.05)
        message = message[split:]
    writer.write(message)
    head = await reader.readuntil(b"\r\n\r\n")
    if b" 200 " not in head.partition(b"\r\n")[0]:
        raise ConnectionError(head.partition(b"\r\n")[0].decode())
    length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
    return await reader.readexactly(int(length.partition(b":")[2]))


async def send(host: str, port: int, requests: Sequence[bytes], clients: int, slow_every: int = 0) -> LoadResult:
    """Send all requests from a number of clients, each with one persistent connection."""
    numbers = iter(range(len(requests)))
    latencies: list[float] = []
    bodies: dict[int, bytes] = {}
    lost = 0

    async def client() -> None:
        nonlocal lost
        reader, writer = await asyncio.open_connection(host, port, limit=2**24)
        for number in numbers:
            start = time.perf_counter()
            try:
                slow = bool(slow_every) and number % slow_every == 0
                bodies[number] = await exchange(reader, writer, requests[number], slow=slow)
            except (OSError, asyncio.IncompleteReadError) as error:
                print(f"lost: {error!r}", file=sys.stderr)
                lost += 1
                reader, writer = await asyncio.open_connection(host, port, limit=2**24)
                continue
            latencies.append(time.perf_counter() - start)
        writer.close()

    start = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(clients)))
    return LoadResult(time.perf_counter() - start, np.array(latencies), bodies, lost)


def speed(ours: tuple[str, int, int], plain: tuple[str, int, int], texts: list[str], rounds: int) -> None:
    print("\n## One sentence per request, servers alternating\n")
    print("| clients | server | requests/s | p50 ms | p99 ms | ratio to plain (per round) |\n|---|---|---|---|---|---|")
    requests = [request([text]) for text in texts]
    for clients in (32, 1):
        batch = requests if clients > 1 else requests[: max(1, len(requests) // 8)]
        results: dict[str, list[LoadResult]] = {"plain": [], "kosbert": []}
        for address in (plain, ours):
            asyncio.run(send(*address[:2], batch[:64], clients))  # warm up
        for _ in range(rounds):
            for name, address in (("plain", plain), ("kosbert", ours)):
                results[name].append(asyncio.run(send(*address[:2], batch, clients)))
        ratios = [run.rate / base.rate for run, base in zip(results["kosbert"], results["plain"], strict=True)]
        for name, runs in results.items():
            latencies = np.concatenate([run.latencies for run in runs]) * 1_000
            rate = np.median([run.rate for run in runs])
            ratio = f"{np.median(ratios):.1f} ({min(ratios):.1f} to {max(ratios):.1f})" if name == "kosbert" else "1"
            p50, p99 = np.percentile(latencies, (50, 99))
            print(f"| {clients} | {name} | {rate:.0f} | {p50:.2f} | {p99:.2f} | {ratio} |")


def overhead(ours: tuple[str, int, int], encoder: kosbert.Encoder, texts: list[str]) -> None:
    print("\n## One client, one sentence: overhead over `encode`\n")

    async def alternate() -> NDArray[np.float64]:
        reader, writer = await asyncio.open_connection(*ours[:2])
        times = []
        for text in texts:
            message = request([text])
            start = time.perf_counter()
            await exchange(reader, writer, message, slow=False)
            served_at = time.perf_counter()
            encoder.encode([text], normalize_embeddings=True)
            times.append((served_at - start, time.perf_counter() - served_at))
        writer.close()
        return np.array(times[len(times) // 10 :]) * 1_000

    times = asyncio.run(alternate())
    served, direct = np.percentile(times, 50, axis=0)
    print("| | p50 ms | p99 ms |\n|---|---|---|")
    for column, name in enumerate(("served", "direct encode")):
        print(f"| {name} | {np.median(times[:, column]):.2f} | {np.percentile(times[:, column], 99):.2f} |")
    print(f"\noverhead at p50: {served - direct:.2f} ms over {len(times)} calls")


def many(ours: tuple[str, int, int], encoder: kosbert.Encoder, texts: list[str], count: int) -> None:
    print(f"\n## {count:,} requests of 1 to 8 texts, 32 clients, one request in twenty slow\n")
    generator = np.random.default_rng(0)
    # Some texts are long: six sentences joined.
    long_texts = [" ".join(generator.choice(texts, 6)) for _ in range(len(texts) // 10)]
    pool = [*texts, *long_texts]
    reference = {text: encoder.encode(text, normalize_embeddings=True) for text in pool}
    inputs = [[pool[row] for row in generator.integers(0, len(pool), 1 + number % 8)] for number in range(count)]
    result = asyncio.run(send(*ours[:2], [request(batch) for batch in inputs], 32, slow_every=20))
    wrong, max_difference = 0, 0.0
    for number, body in result.bodies.items():
        expected = np.stack([reference[text] for text in inputs[number]])
        vectors = np.array(json.loads(body))
        difference = float(np.abs(vectors - expected).max()) if vectors.shape == expected.shape else float("inf")
        max_difference = max(max_difference, difference)
        wrong += difference > 1e-5
    p50, p99 = np.percentile(result.latencies, (50, 99)) * 1_000
    print(
        "| requests | lost | wrong | largest difference | requests/s | texts/s | p50 ms | p99 ms |\n"
        "|---|---|---|---|---|---|---|---|"
    )
    total = sum(map(len, inputs))
    print(
        f"| {count:,} | {result.lost} | {wrong} | {max_difference:.1e} | {result.rate:.0f} "
        f"| {total / result.seconds:.0f} "
        f"| {p50:.1f} | {p99:.1f} |"
    )


def soak(ours: tuple[str, int, int], texts: list[str], minutes: float) -> None:
    print(f"\n## {minutes:g} minutes of requests from 16 clients\n")
    print("| minute | requests | lost | memory MiB |\n|---|---|---|---|")
    requests = [request(texts[row : row + 1 + row % 5]) for row in range(0, len(texts) - 5, 3)]
    start, done, lost = time.perf_counter(), 0, 0
    while (elapsed := time.perf_counter() - start) < minutes * 60:
        end = elapsed + 30
        while time.perf_counter() - start < min(end, minutes * 60):
            result = asyncio.run(send(*ours[:2], requests, 16))
            done, lost = done + len(result.latencies), lost + result.lost
        print(
            f"| {(time.perf_counter() - start) / 60:.1f} | {done:,} | {lost} | {resident_memory(ours[2]):.0f} |",
            flush=True,
        )


def resident_memory(pid: int) -> float:
    """Return the resident memory of a process in MiB (Linux)."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1_024
    return float("nan")


def sentences(count: int) -> list[str]:
    """Return `count` sentences of KLUE-STS if available, else of the sample set; repeated if there are fewer."""
    source = "klue-sts-train" if data.available(data.get("klue-sts"), "train", None) else "sample-sts-train"
    rows = data.load(source)
    distinct = list(dict.fromkeys(text for row in rows for text in data.sentences_of(row)))
    return [distinct[number % len(distinct)] for number in range(count)]


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        plain_server(sys.argv[2])
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="builtin")
    parser.add_argument("--plain", default="", help="model for the plain server; default: --model")
    parser.add_argument("--part", nargs="*", default=["speed", "overhead", "many"])
    parser.add_argument("--requests", type=int, default=2_000, help="per round of `speed`; `overhead` sends a quarter")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--many", type=int, default=10_000)
    parser.add_argument("--minutes", type=float, default=5)
    options = parser.parse_args()
    encoder = kosbert.load(options.model)
    texts = sentences(options.requests)
    threads = os.environ.get("OMP_NUM_THREADS", "unset")
    print(f"model {options.model} ({encoder.dim} dimensions), {os.cpu_count()} processors, OMP_NUM_THREADS={threads}")
    command = [
        "-c",
        "from kosbert.cli import main; main()",
        "serve",
        options.model,
        "--port",
        "0",
        "--max-queue",
        "1000000",
    ]
    with contextlib.ExitStack() as stack:
        ours = stack.enter_context(server(*command))
        if "speed" in options.part:
            plain_model = options.plain or str(kosbert.model.directory.find_model(options.model))
            with server(__file__, "--child", plain_model) as plain:
                speed(ours, plain, texts, options.rounds)
        if "overhead" in options.part:
            overhead(ours, encoder, texts[: max(20, options.requests // 4)])
        if "many" in options.part:
            many(ours, encoder, texts, options.many)
        if "soak" in options.part:
            soak(ours, texts, options.minutes)


if __name__ == "__main__":
    main()
