"""Real clients: the `openai` package, and huggingface_hub's client of text-embeddings-inference."""

import asyncio

import numpy as np
import pytest


def test_openai_client(address: str, encoder, sentences) -> None:
    openai = pytest.importorskip("openai")
    client = openai.OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0)
    response = client.embeddings.create(model="tiny", input=sentences)  # requests base64 by default
    np.testing.assert_allclose(
        [item.embedding for item in response.data], encoder.encode(sentences, normalize_embeddings=True), atol=1e-5
    )
    assert response.usage.total_tokens > 0
    floats = client.embeddings.create(model="tiny", input=sentences[0], encoding_format="float", dimensions=7)
    np.testing.assert_allclose(
        floats.data[0].embedding, encoder.encode(sentences[0], normalize_embeddings=True, truncate_dim=7), atol=1e-5
    )
    assert client.embeddings.create(model="tiny", input=[5, 6, 7]).data[0].embedding
    assert [model.id for model in client.models.list()] == ["tiny"]
    with pytest.raises(openai.NotFoundError, match="only the model tiny"):
        client.embeddings.create(model="other", input="글")
    with pytest.raises(openai.BadRequestError, match="empty"):
        client.embeddings.create(model="tiny", input=[" "])


def test_concurrent_openai_clients(address: str, encoder, sentences) -> None:
    openai = pytest.importorskip("openai")

    async def work() -> list[list[float]]:
        async with openai.AsyncOpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0) as client:
            responses = await asyncio.gather(
                *(client.embeddings.create(model="tiny", input=text) for text in sentences * 4)
            )
            return [response.data[0].embedding for response in responses]

    np.testing.assert_allclose(asyncio.run(work()), encoder.encode(sentences * 4, normalize_embeddings=True), atol=1e-5)


def test_hugging_face_client(address: str, encoder, sentences, monkeypatch: pytest.MonkeyPatch) -> None:
    hub = pytest.importorskip("huggingface_hub")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)  # offline mode blocks localhost as well
    vectors = hub.InferenceClient(model=f"{address}/embed").feature_extraction(sentences[0])
    np.testing.assert_allclose(
        np.reshape(vectors, -1), encoder.encode(sentences[0], normalize_embeddings=True), atol=1e-5
    )
    cosines = hub.InferenceClient(model=f"{address}/similarity").sentence_similarity(
        sentences[0], other_sentences=sentences[1:]
    )
    np.testing.assert_allclose(cosines, encoder.similarity(sentences[:1], sentences[1:])[0], atol=1e-5)
