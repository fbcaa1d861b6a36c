"""A thousand requests of mixed lengths from fast, slow and disconnecting clients: all answers are right."""

import asyncio
import json

import httpx
import numpy as np
import pytest

REQUESTS = 1_000
CLIENTS = 24


@pytest.mark.slow
def test_a_thousand_requests_get_the_right_vectors(address: str, encoder, sentences) -> None:
    generator = np.random.default_rng(0)
    words = " ".join(sentences).split()
    texts = [" ".join(generator.choice(words, size)) for size in generator.integers(1, 40, 200)]
    expected = dict(zip(texts, encoder.encode(texts, normalize_embeddings=True), strict=True))
    numbers = iter(range(REQUESTS))
    answered = 0

    async def slow_body(body: bytes):
        """Yield the body in small chunks, as on a slow connection."""
        for start in range(0, len(body), 40):
            yield body[start : start + 40]
            await asyncio.sleep(0.001)

    async def send_requests(client: httpx.AsyncClient) -> None:
        nonlocal answered
        for number in numbers:
            inputs = [texts[index] for index in generator.integers(0, len(texts), 1 + number % 3)]
            if number % 50 == 49:  # disconnects
                try:
                    await client.post("/embed", json={"inputs": inputs * 20}, timeout=0.01)
                except httpx.TimeoutException:
                    continue
            body = json.dumps({"inputs": inputs}).encode()
            content = slow_body(body) if number % 20 == 7 else body
            response = await client.post("/embed", content=content, headers={"content-type": "application/json"})
            assert response.status_code == 200
            np.testing.assert_allclose(response.json(), [expected[text] for text in inputs], atol=1e-5)
            answered += 1

    async def work() -> None:
        async with httpx.AsyncClient(base_url=address, timeout=600) as client:
            await asyncio.gather(*(send_requests(client) for _ in range(CLIENTS)))
            metrics = (await client.get("/metrics")).text
            assert "kosbert_requests_in_progress 1.0" in metrics  # this one
            assert "kosbert_queue_tokens 0.0" in metrics

    asyncio.run(work())
    assert answered >= REQUESTS - REQUESTS // 50
