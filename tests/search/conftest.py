"""Sentences on three topics that share words, so that bag-of-words vectors are enough to search them."""

import pytest

SHOP_SENTENCES = [
    "배송이 너무 늦어요",
    "배송이 언제 도착하나요",
    "환불을 받고 싶어요",
    "환불을 언제 받나요",
    "오늘 날씨가 좋아요",
    "오늘 날씨가 너무 추워요",
]


@pytest.fixture
def shop() -> list[str]:
    return list(SHOP_SENTENCES)
