"""Packages that take a SentenceTransformer, run with a kosbert model instead."""

import asyncio
import sys

import numpy as np
import pytest

import kosbert

DELIVERY = ["배송이 정말 빨라요", "배송이 아주 늦어요", "배송이 하루 만에 왔어요", "배송 기사님이 친절해요"]
MOVIES = ["영화가 정말 재미있어요", "영화가 너무 지루해요", "배우의 연기가 훌륭한 영화예요", "이 영화를 또 보고 싶어요"]


@pytest.fixture(scope="module")
def model():
    return kosbert.load()


def test_bertopic_separates_two_topics(model, monkeypatch):
    # Without UMAP and HDBSCAN (BERTopic's lightweight installation): compiling them takes half a minute.
    for name in ("umap", "hdbscan"):
        monkeypatch.setitem(sys.modules, name, None)
    bertopic = pytest.importorskip("bertopic", reason="BERTopic is not installed: pip install bertopic")
    from sklearn.cluster import KMeans
    from sklearn.decomposition import PCA

    from kosbert.integrations.bertopic import KosbertBackend

    topic_model = bertopic.BERTopic(
        embedding_model=KosbertBackend(model), umap_model=PCA(2), hdbscan_model=KMeans(2, random_state=0, n_init=10)
    )
    topics, _ = topic_model.fit_transform(DELIVERY * 3 + MOVIES * 3)
    assert len(set(topics[:12])) == len(set(topics[12:])) == 1
    assert topics[0] != topics[-1]
    words = {word for word, _ in topic_model.get_topic(topics[-1])}
    assert "영화가" in words
    (topic,), _ = topic_model.find_topics("영화", top_n=1)
    assert topic == topics[-1]


def test_keybert_ranks_the_subject_first(model):
    keybert = pytest.importorskip("keybert", reason="KeyBERT is not installed: pip install keybert")
    from kosbert.integrations.keybert import KosbertBackend

    document = "배송이 너무 늦어서 환불을 요청했는데 고객센터가 전화를 받지 않습니다"
    keywords = keybert.KeyBERT(model=KosbertBackend(model)).extract_keywords(document, top_n=3)
    expected = model.similarity(document, [word for word, _ in keywords])[0]
    np.testing.assert_allclose([score for _, score in keywords], expected, atol=1e-3)
    assert [score for _, score in keywords] == sorted((score for _, score in keywords), reverse=True)


def test_llama_index_retrieves_the_nearest_document(model):
    pytest.importorskip("llama_index.core", reason="LlamaIndex is not installed: pip install llama-index-core")
    from llama_index.core import Document, VectorStoreIndex

    from kosbert.integrations.llama_index import KosbertEmbedding

    embedding = KosbertEmbedding(model)
    assert embedding.model_name == "builtin"
    assert embedding.get_text_embedding_batch(DELIVERY) == pytest.approx(
        model.encode(DELIVERY, normalize_embeddings=True), abs=1e-5
    )
    assert asyncio.run(embedding.aget_query_embedding("배송")) == embedding.get_query_embedding("배송")
    documents = [Document(text=text) for text in DELIVERY + MOVIES]
    retriever = VectorStoreIndex.from_documents(documents, embed_model=embedding).as_retriever(similarity_top_k=2)
    assert all("영화" in hit.text for hit in retriever.retrieve("볼 만한 영화 추천"))


def test_langchain_retrieves_the_nearest_document(model):
    pytest.importorskip("langchain_core", reason="LangChain is not installed: pip install langchain-core")
    from langchain_core.embeddings import Embeddings
    from langchain_core.vectorstores import InMemoryVectorStore

    from kosbert.integrations.langchain import KosbertEmbeddings

    embeddings = KosbertEmbeddings(model)
    assert isinstance(embeddings, Embeddings)
    store = InMemoryVectorStore(embeddings)
    store.add_texts(DELIVERY + MOVIES)
    (hit,) = store.similarity_search("볼 만한 영화 추천", k=1)
    assert "영화" in hit.page_content
    assert asyncio.run(embeddings.aembed_query("글")) == embeddings.embed_query("글")
    assert embeddings.embed_documents([]) == []
    assert isinstance(embeddings.embed_query("글")[0], float)
    baseline = KosbertEmbeddings("random-words")
    assert baseline.embed_query("배송이") == pytest.approx(baseline.embed_documents(["배송이"])[0])


def test_sentence_transformers_quickstart_runs_unchanged(model):
    """The code of sentence-transformers' README, with kosbert.load() in place of SentenceTransformer(...)."""
    from sentence_transformers.util import paraphrase_mining_embeddings, semantic_search

    embeddings = model.encode(DELIVERY + MOVIES)
    assert embeddings.shape == (8, model.get_embedding_dimension())
    similarities = model.similarity(embeddings, embeddings)
    assert similarities.shape == (8, 8)
    assert float(similarities[0][0]) == pytest.approx(1, abs=1e-5)
    assert int(similarities[0][1:].argmax()) < 3

    queries = model.encode_query(["볼 만한 영화"], convert_to_tensor=True)
    corpus = model.encode_document(DELIVERY + MOVIES, convert_to_tensor=True, show_progress_bar=False, batch_size=4)
    assert model.similarity(queries, corpus).topk(1).indices.item() >= 4
    (hits,) = semantic_search(queries, corpus, top_k=3)
    assert all(hit["corpus_id"] >= 4 for hit in hits)
    assert len(paraphrase_mining_embeddings(corpus)) > 0
