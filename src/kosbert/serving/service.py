"""What a running server holds: its model, its index, its keys, and the gatherer between requests and the model."""

import asyncio
import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kosbert.errors import KosbertError
from kosbert.model import Prepared
from kosbert.model.similarity import unit
from kosbert.serving.dynamic_batcher import DynamicBatcher
from kosbert.serving.errors import too_large, wrong
from kosbert.serving.keys import ENVIRONMENT, Keys
from kosbert.serving.limits import MOST_CHARACTERS, Rates
from kosbert.serving.metrics import Metrics
from kosbert.serving.model_runner import ModelRunner
from kosbert.serving.request_middleware import RequestContext
from kosbert.serving.settings import Settings

if TYPE_CHECKING:
    from kosbert.serving.index_service import IndexService

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Encoded:
    """Vectors as the model gave them, (texts, dim), which model that was, and what it read."""

    vectors: NDArray[np.float32]
    model: ModelRunner
    prepared: Prepared

    def shortened(self, dimensions: int | None, *, normalize: bool = True) -> NDArray[np.float32]:
        """The vectors with their first dimensions only, (texts, dimensions), and of length 1 if asked."""
        dim = self.model.encoder.dim
        if dimensions is not None and not 1 <= dimensions <= dim:
            raise wrong(f"{dimensions} dimensions are impossible: give 1 to {dim}", param="dimensions")
        vectors = self.vectors[:, :dimensions]
        return unit(vectors) if normalize else np.ascontiguousarray(vectors)

    @property
    def headers(self) -> dict[str, str]:
        """Tells a client that texts were longer than the model reads."""
        return {"x-truncated-texts": str(self.prepared.truncated)} if self.prepared.truncated else {}


class Service:
    """Everything that endpoints share; made by `open`."""

    def __init__(self, settings: Settings, model: ModelRunner, index: "IndexService | None", keys: Keys) -> None:
        self.settings, self.model, self.index, self.keys = settings, model, index, keys
        self.metrics = Metrics()
        self.rates = Rates(settings.limits.rate)
        self.gatherer = DynamicBatcher(settings.limits.queue_tokens, self.metrics)
        self.closing = False
        self._reloading = asyncio.Lock()

    @classmethod
    def open(cls, settings: Settings) -> "Service":
        """Load what the settings name; a mistake in them is raised here, before anything listens."""
        return cls(settings, *_loaded(settings))

    async def reload(self) -> None:
        """Load model, index and keys again, and change over between two batches: no request is dropped.

        Requests that came before finish with what they began with. Where anything is wrong, everything stays.
        """
        async with self._reloading:
            try:
                model, index, keys = await asyncio.to_thread(_loaded, self.settings)
            except KosbertError as error:
                logger.error("not reloaded, the old model goes on: %s", error)
                return
            self.model, self.index, self.keys = model, index, keys
            logger.info("reloaded", extra={"fields": {"model": model.name}})

    async def close(self) -> None:
        """Finish what was taken."""
        self.closing = True
        if self.index:
            self.index.close()
        await self.gatherer.close()

    async def encode(
        self, texts: Sequence[str], account: RequestContext, *, param: str = "inputs", truncate: bool = True
    ) -> Encoded:
        """The vectors of texts, after a look at every limit."""
        model = self.model
        self.check_texts(texts, param)
        prepared = await self.prepare(model, texts, account)
        if prepared.truncated and not truncate:
            raise too_large(
                f"{prepared.truncated} of the texts have more than {model.encoder.max_length} tokens: "
                "shorten them, or send truncate: true", param=param,
            )  # fmt: skip
        return await self.compute(model, prepared, account, param=param)

    async def prepare(self, model: ModelRunner, texts: Sequence[str], account: RequestContext) -> Prepared:
        """Texts as a model takes them."""
        if self.settings.log_texts:
            account.content = list(texts)
        return await self.gatherer.prepare(model, texts)

    async def compute(self, model: ModelRunner, prepared: Prepared, account: RequestContext, *, param: str) -> Encoded:
        """The vectors of what a model has prepared."""
        most, tokens = self.settings.limits.tokens, prepared.tokens
        if tokens > most:
            raise too_large(f"{tokens:,} tokens are too many: send at most {most:,} a request", param=param)
        account.texts, account.tokens = len(prepared.inverse), tokens
        return Encoded(await self.gatherer.vectors(model, prepared), model, prepared)

    def check_count(self, count: int, param: str) -> None:
        """Refuse no texts and too many."""
        if not count:
            raise wrong(f"{param} is empty: send at least one text", param=param)
        most = self.settings.limits.texts
        if count > most:
            raise too_large(f"{count:,} texts are too many: send at most {most:,} a request", param=param)

    def check_texts(self, texts: Sequence[str], param: str) -> None:
        """Refuse texts that are empty or without end."""
        self.check_count(len(texts), param)
        for number, text in enumerate(texts):
            if not text or text.isspace():
                raise wrong(f"text {number} is empty: leave it out", param=param)
            if len(text) > MOST_CHARACTERS:
                raise too_large(f"text {number} has more than {MOST_CHARACTERS:,} characters: split it", param=param)


def _loaded(settings: Settings) -> "tuple[ModelRunner, IndexService | None, Keys]":
    keys = Keys.read(settings.keys, os.environ.get(ENVIRONMENT))
    model = ModelRunner.load(settings.model)
    if settings.index is None:
        return model, None, keys
    from kosbert.serving.index_service import IndexService  # brings Arrow

    return model, IndexService.load(settings.index, model), keys
