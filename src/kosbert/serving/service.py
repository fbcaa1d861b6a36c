"""State of a running server (model, index, API keys) and the path from texts to embeddings."""

import asyncio
import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kosbert.errors import KosbertError
from kosbert.model import Prepared
from kosbert.model.similarity import unit
from kosbert.serving.dynamic_batcher import DynamicBatcher
from kosbert.serving.errors import bad_request, too_large
from kosbert.serving.keys import KEYS_VARIABLE, ApiKeys
from kosbert.serving.metrics import Metrics
from kosbert.serving.served_model import ServedModel
from kosbert.serving.settings import MAX_CHARACTERS, ServerSettings

if TYPE_CHECKING:
    from kosbert.serving.index_service import IndexService

_MAX_INLINE_CHARACTERS = 2_000  # tokenized on the event loop in about a millisecond; longer inputs go to a thread

logger = logging.getLogger(__name__)


@dataclass
class RequestContext:
    """What is logged about a request."""

    request_id: str
    texts: int = 0
    tokens: int = 0
    key: int | None = None  # number of the API key
    content: list[str] = field(default_factory=list)  # the texts; empty unless --log-texts


@dataclass(frozen=True)
class EncodedTexts:
    """Vectors as the model returned them, (texts, dim), with the model and the prepared texts."""

    vectors: NDArray[np.float32]
    model: ServedModel
    prepared: Prepared

    def embeddings(self, dimensions: int | None = None, *, normalize: bool = True) -> NDArray[np.float32]:
        """Return the vectors truncated to their first dimensions, (texts, dimensions), and normalized."""
        dim = self.model.encoder.dim
        if dimensions is not None and not 1 <= dimensions <= dim:
            raise bad_request(f"dimensions must be 1 to {dim}, not {dimensions}", param="dimensions")
        vectors = self.vectors[:, :dimensions]
        return unit(vectors) if normalize else np.ascontiguousarray(vectors)

    @property
    def headers(self) -> dict[str, str]:
        """Response headers: the number of truncated texts, if any."""
        return {"x-truncated-texts": str(self.prepared.truncated)} if self.prepared.truncated else {}


class Service:
    """What all routes share; created by `open`."""

    def __init__(
        self, settings: ServerSettings, model: ServedModel, index: "IndexService | None", keys: ApiKeys
    ) -> None:
        self.settings, self.model, self.index, self.keys = settings, model, index, keys
        self.metrics = Metrics()
        self.batcher = DynamicBatcher(settings.limits.max_queue_tokens, self.metrics)
        self.closing = False
        self._reload_lock = asyncio.Lock()

    @classmethod
    def open(cls, settings: ServerSettings) -> "Service":
        """Load everything that the settings name. Errors are raised here, before the server listens."""
        return cls(settings, *_load(settings))

    async def reload(self) -> None:
        """Reload model, index and keys, and switch to them between two batches without dropping a request.

        Requests in progress finish with the old model. If anything fails to load, nothing changes.
        """
        async with self._reload_lock:
            try:
                model, index, keys = await asyncio.to_thread(_load, self.settings)
            except KosbertError as error:
                logger.error("reload failed, keeping the current model: %s", error)
                return
            self.model, self.index, self.keys = model, index, keys
            logger.info("reloaded", extra={"fields": {"model": model.name}})

    async def close(self) -> None:
        """Reject new requests and finish the queued ones."""
        self.closing = True
        if self.index:
            self.index.close()
        await self.batcher.close()

    async def encode(
        self,
        inputs: Sequence[Any],
        context: RequestContext,
        *,
        param: str = "inputs",
        truncate: bool = True,
        check: bool = True,
    ) -> EncodedTexts:
        """Encode texts, given as strings or as token ids of the model's own tokenizer.

        Args:
            inputs: one string or one list of token ids per text.
            context: filled in for the log.
            param: the request field with the inputs, for error messages.
            truncate: truncate texts that are too long for the model; otherwise reject them.
            check: call `check_inputs` first.
        """
        model, max_tokens = self.model, self.settings.limits.max_tokens
        if check:
            self.check_inputs(inputs, param)
        are_texts = isinstance(inputs[0], str)
        if self.settings.log_texts and are_texts:
            context.content = list(inputs)
        if not are_texts:
            prepared = model.prepare_token_ids(inputs)
        elif model.backend == "onnx" and sum(map(len, inputs)) <= _MAX_INLINE_CHARACTERS:
            prepared = model.encoder.prepare(inputs)
        else:  # in a thread: long texts would block the event loop, and a batch may be using a torch tokenizer
            prepared = await asyncio.to_thread(model.encoder.prepare, inputs)
        if prepared.truncated and not truncate:
            raise too_large(
                f"{prepared.truncated} of the texts have more than {model.encoder.max_length} tokens: "
                "shorten them, or send truncate: true", param=param,
            )  # fmt: skip
        tokens = prepared.tokens
        if tokens > max_tokens:
            raise too_large(f"{tokens:,} tokens are too many: send at most {max_tokens:,} per request", param=param)
        context.texts, context.tokens = len(inputs), tokens
        return EncodedTexts(await self.batcher.encode(model.encoder, prepared), model, prepared)

    def check_inputs(self, inputs: Sequence[Any], param: str) -> None:
        """Raise ApiError if there are no texts or too many, or if a text is empty or too long."""
        max_texts = self.settings.limits.max_texts
        if not inputs:
            raise bad_request(f"{param} is empty: send at least one text", param=param)
        if len(inputs) > max_texts:
            raise too_large(f"{len(inputs):,} texts are too many: send at most {max_texts:,} per request", param=param)
        if not isinstance(inputs[0], str):
            if sum(map(len, inputs)) > MAX_CHARACTERS:
                raise too_large(f"there are more than {MAX_CHARACTERS:,} token ids: send fewer", param=param)
            return
        for number, text in enumerate(inputs):
            if not text or text.isspace():
                raise bad_request(f"text {number} is empty: remove it", param=param)
            if len(text) > MAX_CHARACTERS:
                raise too_large(f"text {number} has more than {MAX_CHARACTERS:,} characters: split it", param=param)


def _load(settings: ServerSettings) -> "tuple[ServedModel, IndexService | None, ApiKeys]":
    keys = ApiKeys.read(settings.keys, os.environ.get(KEYS_VARIABLE))
    model = ServedModel.load(settings.model)
    if settings.index is None:
        return model, None, keys
    from kosbert.serving.index_service import IndexService  # imports pyarrow

    return model, IndexService.load(settings.index, model), keys
