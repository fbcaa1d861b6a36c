"""A thousand requests of mixed lengths, from quick, slow and faithless clients: nothing is wrong, nothing is lost."""

import asyncio
import json

import httpx
import numpy as np

REQUESTS = 1_000
CLIENTS = 24


def test_a_thousand_requests(address: str, encoder, sentences) -> None:
    generator = np.random.default_rng(0)
    words = " ".join(sentences).split()
    texts = [" ".join(generator.choice(words, size)) for size in generator.integers(1, 40, 200)]
    expected = dict(zip(texts, encoder.encode(texts, normalize_embeddings=True), strict=True))
    numbers = iter(range(REQUESTS))
    answered = 0

    async def slowly(body: bytes):
        """A client on a bad line: the body comes in pieces."""
        for place in range(0, len(body), 40):
            yield body[place : place + 40]
            await asyncio.sleep(0.001)

    async def one(client: httpx.AsyncClient) -> None:
        nonlocal answered
        for number in numbers:
            some = [texts[place] for place in generator.integers(0, len(texts), 1 + number % 3)]
            if number % 50 == 49:  # goes away
                try:
                    await client.post("/embed", json={"inputs": some * 20}, timeout=0.01)
                except httpx.TimeoutException:
                    continue
            body = json.dumps({"inputs": some}).encode()
            content = slowly(body) if number % 20 == 7 else body
            found = await client.post("/embed", content=content, headers={"content-type": "application/json"})
            assert found.status_code == 200
            np.testing.assert_allclose(found.json(), [expected[text] for text in some], atol=1e-5)
            answered += 1

    async def work() -> None:
        async with httpx.AsyncClient(base_url=address, timeout=600) as client:
            await asyncio.gather(*(one(client) for _ in range(CLIENTS)))
            metrics = (await client.get("/metrics")).text
            assert "kosbert_requests_under_way 1.0" in metrics  # this one
            assert "kosbert_queue_tokens 0.0" in metrics

    asyncio.run(work())
    assert answered >= REQUESTS - REQUESTS // 50
