"""Bulk encoding on a Ray cluster: Parquet in, Parquet out, on any path that every node can open.

    encode_on_ray("s3://bucket/sentences/", "s3://bucket/vectors/", address="auto", workers=32)

Ray distributes the blocks of the input to actors that each hold the model. When a node dies, other actors encode its
blocks. Paths are local (and then shared by all nodes) or what pyarrow and fsspec open: s3://, gs://, hdfs://, …
"""

from typing import Any

import numpy as np

from kosbert.errors import KosbertError, UsageError

BATCH_SIZE = 4_096
"""Rows per call of an actor."""


class Worker:
    """Ray actor: loads the model once and adds vectors to tables of sentences."""

    def __init__(
        self, model: str, text_column: str, truncate_dim: int | None, normalize_embeddings: bool, precision: str
    ) -> None:
        from kosbert.model.loading import load

        self._encoder = load(model)
        self._encoder.tune_token_budget()
        self._text_column, self._precision = text_column, precision
        self._truncate_dim, self._normalize_embeddings = truncate_dim, normalize_embeddings

    def __call__(self, table: Any) -> Any:
        """Return the table with a column `vector`; it is null for rows without text."""
        import pyarrow

        texts = table.column(self._text_column).to_pylist()
        usable = np.array([isinstance(text, str) and bool(text.strip()) for text in texts], bool)
        dim = self._truncate_dim or self._encoder.dim
        vectors = np.zeros((len(texts), dim), self._precision)
        sentences = [text for text, is_usable in zip(texts, usable, strict=True) if is_usable]
        vectors[usable] = self._encoder.encode(
            sentences, normalize_embeddings=self._normalize_embeddings, truncate_dim=self._truncate_dim
        )
        mask = pyarrow.array(~usable)
        column = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(vectors.reshape(-1)), dim, mask=mask)
        return table.append_column("vector", column)


def encode_on_ray(
    source: str,
    out: str,
    *,
    model: str = "builtin",
    address: str | None = None,
    workers: int = 0,
    cpus_per_worker: float = 1,
    text_column: str = "text",
    truncate_dim: int | None = None,
    normalize_embeddings: bool = True,
    precision: str = "float32",
    blocks: int | None = None,
) -> int:
    """Encode Parquet files on a cluster; return the number of rows written.

    Args:
        source: a Parquet file or a directory of them.
        out: an empty or new directory.
        model: a model name, or a directory that every node has.
        address: a running cluster ("auto", "ray://host:10001"); by default a local one is started.
        workers: number of actors; by default as many as the cluster has CPUs for.
        cpus_per_worker: CPUs per actor. Leave some for reading the input, or the job cannot start.
        text_column: the column with the sentences.
        truncate_dim: keep only the first dimensions.
        normalize_embeddings: scale vectors to length 1.
        precision: float32 or float16.
        blocks: number of blocks that the input is split into; Ray decides by default.
    """
    try:
        import ray
    except ImportError:
        raise UsageError("a cluster needs Ray: pip install 'kosbert[ray]'") from None
    from fsspec.core import url_to_fs

    system, path = url_to_fs(out)
    if system.exists(path) and system.ls(path):
        raise UsageError(f"{out} is not empty, and rows would be written twice: give a new directory")
    started = not ray.is_initialized()
    if started:
        try:
            ray.init(address=address, log_to_driver=False, include_dashboard=False, configure_logging=False)
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise KosbertError(
                f"there is no Ray cluster at {address} ({error}): start one, or omit --address"
            ) from error
    try:
        dataset = ray.data.read_parquet(source, override_num_blocks=blocks)
        columns = dataset.schema().names
        if text_column not in columns:
            raise UsageError(f"{source} has no column {text_column!r}: name one of {', '.join(columns)}")
        max_workers = workers or max(1, int(ray.cluster_resources().get("CPU", 1) // cpus_per_worker) - 1)
        encoded = dataset.map_batches(
            Worker,
            fn_constructor_args=(model, text_column, truncate_dim, normalize_embeddings, precision),
            batch_size=BATCH_SIZE,
            batch_format="pyarrow",
            num_cpus=cpus_per_worker,
            concurrency=(1, max_workers),
        )
        encoded.write_parquet(out)
        return int(ray.data.read_parquet(out).count())
    except ray.exceptions.RayError as error:
        reason = str(error).strip().splitlines()[-1][:300]
        raise KosbertError(
            f"the cluster could not encode {source} ({reason}): run it again with a new directory"
        ) from error
    finally:
        if started:
            ray.shutdown()
