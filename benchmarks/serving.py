"""The server in figures, beside the same model behind a plain FastAPI + sentence-transformers server without batching.

    python benchmarks/serving.py --model builtin                                   # all parts, minutes
    python benchmarks/serving.py --model DIR --plain DIR --requests 200 --rounds 1  # --plain: where torch's weights are
    python benchmarks/serving.py --model builtin --part soak --minutes 10          # memory of the server over time

Parts (--part, all but soak without it):
    speed      32 clients and 1 client, a sentence a request: throughput, p50 and p99; the two servers take turns
    overhead   one client, one sentence: the server's p50 less that of the bare `encode`, call by call in turns
    many       --many requests of mixed lengths, some from slow clients: how many answers were wrong or lost
    soak       requests for --minutes, with the server's memory every half minute

Each server is a process of its own; the clients are this process, with nothing of HTTP but what they need, because two
cores serve both sides. An answer is wrong if it is not within 1e-5 of what `encode` gives for the text alone.
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
class Answered:
    """What one run of clients saw."""

    seconds: float
    waits: NDArray[np.float64]  # seconds of each request
    bodies: dict[int, bytes]
    lost: int

    @property
    def rate(self) -> float:
        return len(self.waits) / self.seconds


def plain_server(model: str) -> None:
    """What everybody writes first."""
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
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # as where uvicorn binds by itself
    print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="error")).run([listener])


@contextlib.contextmanager
def server(*command: str) -> Iterator[tuple[str, int, int]]:
    """A server process: host, port, process id."""
    process = subprocess.Popen([sys.executable, *command], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        words = process.stdout.readline().split()
        if not words:
            sys.exit(f"the server did not start: {' '.join(command)}")
        place = urlsplit(words[-1])
        assert place.hostname is not None
        assert place.port is not None
        asyncio.run(until_ready(place.hostname, place.port))
        yield place.hostname, place.port, process.pid
    finally:
        process.terminate()
        process.wait()


async def until_ready(host: str, port: int) -> None:
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


async def exchange(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, sent: bytes, *, slow: bool) -> bytes:
    if slow:
        middle = len(sent) - 10
        writer.write(sent[:middle])
        await writer.drain()
        await asyncio.sleep(0.05)
        sent = sent[middle:]
    writer.write(sent)
    head = await reader.readuntil(b"\r\n\r\n")
    if b" 200 " not in head.partition(b"\r\n")[0]:
        raise ConnectionError(head.partition(b"\r\n")[0].decode())
    length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
    return await reader.readexactly(int(length.partition(b":")[2]))


async def ask(host: str, port: int, requests: Sequence[bytes], clients: int, slow_every: int = 0) -> Answered:
    """All requests, by so many clients, each with one connection that stays open."""
    numbers = iter(range(len(requests)))
    waits: list[float] = []
    bodies: dict[int, bytes] = {}
    lost = 0

    async def one() -> None:
        nonlocal lost
        reader, writer = await asyncio.open_connection(host, port, limit=2**24)
        for number in numbers:
            started = time.perf_counter()
            try:
                slow = bool(slow_every) and number % slow_every == 0
                bodies[number] = await exchange(reader, writer, requests[number], slow=slow)
            except (OSError, asyncio.IncompleteReadError) as error:
                print(f"lost: {error!r}", file=sys.stderr)
                lost += 1
                reader, writer = await asyncio.open_connection(host, port, limit=2**24)
                continue
            waits.append(time.perf_counter() - started)
        writer.close()

    started = time.perf_counter()
    await asyncio.gather(*(one() for _ in range(clients)))
    return Answered(time.perf_counter() - started, np.array(waits), bodies, lost)


def speed(ours: tuple[str, int, int], plain: tuple[str, int, int], texts: list[str], rounds: int) -> None:
    print("\n## One sentence a request, the servers in turns\n")
    print(
        "| clients | server | requests/s | p50 ms | p99 ms | times the plain one (each round) |\n"
        "|---|---|---|---|---|---|"
    )
    requests = [request([text]) for text in texts]
    for clients in (32, 1):
        some = requests if clients > 1 else requests[: max(1, len(requests) // 8)]
        found: dict[str, list[Answered]] = {"plain": [], "kosbert": []}
        for place in (plain, ours):
            asyncio.run(ask(*place[:2], some[:64], clients))  # warm
        for _ in range(rounds):
            for name, place in (("plain", plain), ("kosbert", ours)):
                found[name].append(asyncio.run(ask(*place[:2], some, clients)))
        ratios = [mine.rate / other.rate for mine, other in zip(found["kosbert"], found["plain"], strict=True)]
        for name, runs in found.items():
            waits = np.concatenate([each.waits for each in runs]) * 1_000
            rate = np.median([each.rate for each in runs])
            ratio = f"{np.median(ratios):.1f} ({min(ratios):.1f} to {max(ratios):.1f})" if name == "kosbert" else "1"
            p50, p99 = np.percentile(waits, (50, 99))
            print(f"| {clients} | {name} | {rate:.0f} | {p50:.2f} | {p99:.2f} | {ratio} |")


def overhead(ours: tuple[str, int, int], encoder: kosbert.Encoder, texts: list[str]) -> None:
    print("\n## One client, one sentence: what the server adds to `encode`\n")

    async def turns() -> NDArray[np.float64]:
        reader, writer = await asyncio.open_connection(*ours[:2])
        times = []
        for text in texts:
            sent = request([text])
            first = time.perf_counter()
            await exchange(reader, writer, sent, slow=False)
            second = time.perf_counter()
            encoder.encode([text], normalize_embeddings=True)
            times.append((second - first, time.perf_counter() - second))
        writer.close()
        return np.array(times[len(times) // 10 :]) * 1_000

    times = asyncio.run(turns())
    served, bare = np.percentile(times, 50, axis=0)
    print("| | p50 ms | p99 ms |\n|---|---|---|")
    for place, name in enumerate(("served", "bare encode")):
        print(f"| {name} | {np.median(times[:, place]):.2f} | {np.percentile(times[:, place], 99):.2f} |")
    print(f"\noverhead at p50: {served - bare:.2f} ms over {len(times)} calls")


def many(ours: tuple[str, int, int], encoder: kosbert.Encoder, texts: list[str], count: int) -> None:
    print(f"\n## {count:,} requests of 1 to 8 texts, 32 clients, one request in twenty slow\n")
    generator = np.random.default_rng(0)
    # Some are long: several sentences behind each other.
    longer = [" ".join(generator.choice(texts, 6)) for _ in range(len(texts) // 10)]
    pool = [*texts, *longer]
    alone = {text: encoder.encode(text, normalize_embeddings=True) for text in pool}
    chosen = [[pool[place] for place in generator.integers(0, len(pool), 1 + number % 8)] for number in range(count)]
    found = asyncio.run(ask(*ours[:2], [request(some) for some in chosen], 32, slow_every=20))
    wrong, worst = 0, 0.0
    for number, body in found.bodies.items():
        expected = np.stack([alone[text] for text in chosen[number]])
        vectors = np.array(json.loads(body))
        difference = float(np.abs(vectors - expected).max()) if vectors.shape == expected.shape else float("inf")
        worst = max(worst, difference)
        wrong += difference > 1e-5
    p50, p99 = np.percentile(found.waits, (50, 99)) * 1_000
    print(
        "| requests | lost | wrong | largest difference | requests/s | texts/s | p50 ms | p99 ms |\n"
        "|---|---|---|---|---|---|---|---|"
    )
    total = sum(map(len, chosen))
    print(
        f"| {count:,} | {found.lost} | {wrong} | {worst:.1e} | {found.rate:.0f} | {total / found.seconds:.0f} "
        f"| {p50:.1f} | {p99:.1f} |"
    )


def soak(ours: tuple[str, int, int], texts: list[str], minutes: float) -> None:
    print(f"\n## {minutes:g} minutes of requests from 16 clients\n")
    print("| minute | requests | lost | memory MiB |\n|---|---|---|---|")
    requests = [request(texts[place : place + 1 + place % 5]) for place in range(0, len(texts) - 5, 3)]
    begun, done, lost = time.perf_counter(), 0, 0
    while (passed := time.perf_counter() - begun) < minutes * 60:
        end = passed + 30
        while time.perf_counter() - begun < min(end, minutes * 60):
            found = asyncio.run(ask(*ours[:2], requests, 16))
            done, lost = done + len(found.waits), lost + found.lost
        print(f"| {(time.perf_counter() - begun) / 60:.1f} | {done:,} | {lost} | {resident(ours[2]):.0f} |", flush=True)


def resident(pid: int) -> float:
    """MiB of memory that a process holds (Linux)."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1_024
    return float("nan")


def sentences(count: int) -> list[str]:
    """Sentences of KLUE-STS where KOSBERT_DATA has it, else of the sample set; each once, then again."""
    source = "klue-sts-train" if data.available(data.get("klue-sts"), "train", None) else "sample-sts-train"
    rows = data.load(source)
    found = list(dict.fromkeys(text for row in rows for text in data.sentences_of(row)))
    return [found[place % len(found)] for place in range(count)]


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        plain_server(sys.argv[2])
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="builtin")
    parser.add_argument("--plain", default="", help="what sentence-transformers loads; --model without it")
    parser.add_argument("--part", nargs="*", default=["speed", "overhead", "many"])
    parser.add_argument(
        "--requests", type=int, default=2_000, help="of `speed`, each round; `overhead` makes a quarter"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--many", type=int, default=10_000)
    parser.add_argument("--minutes", type=float, default=5)
    wanted = parser.parse_args()
    encoder = kosbert.load(wanted.model)
    texts = sentences(wanted.requests)
    threads = os.environ.get("OMP_NUM_THREADS", "unset")
    print(f"model {wanted.model} ({encoder.dim} dimensions), {os.cpu_count()} processors, OMP_NUM_THREADS={threads}")
    command = [
        "-c",
        "from kosbert.cli import main; main()",
        "serve",
        wanted.model,
        "--port",
        "0",
        "--max-queue",
        "1000000",
    ]
    with contextlib.ExitStack() as stack:
        ours = stack.enter_context(server(*command))
        if "speed" in wanted.part:
            plain_model = wanted.plain or str(kosbert.model.directory.find_model(wanted.model))
            with server(__file__, "--child", plain_model) as plain:
                speed(ours, plain, texts, wanted.rounds)
        if "overhead" in wanted.part:
            overhead(ours, encoder, texts[: max(20, wanted.requests // 4)])
        if "many" in wanted.part:
            many(ours, encoder, texts, wanted.many)
        if "soak" in wanted.part:
            soak(ours, texts, wanted.minutes)


if __name__ == "__main__":
    main()
