"""The same worker on a Ray cluster: Parquet in, Parquet out, on any path that every node can open.

    encode_on_ray("s3://bucket/sentences/", "s3://bucket/vectors/", address="auto", workers=32)

Ray gives the blocks of the input to actors that each hold the model. When a node dies, its blocks are given to others.
Paths are local (and then shared by all nodes), or what pyarrow or fsspec understands: s3://, gs://, hdfs://, …
"""

from typing import Any

import numpy as np

from kosbert.errors import KosbertError, UsageError

BATCH = 4_096
"""Sentences that an actor encodes at once."""


class Worker:
    """What runs on a node: a model, and what it does with a table of sentences."""

    def __init__(self, model: str, text: str, dim: int | None, normalize: bool, precision: str) -> None:
        from kosbert.model.loading import load

        self._encoder = load(model)
        self._encoder.tune_token_budget()
        self._text, self._dim, self._normalize, self._precision = text, dim, normalize, precision

    def __call__(self, table: Any) -> Any:
        """The table with a column `vector`; rows without text have none."""
        import pyarrow

        texts = table.column(self._text).to_pylist()
        usable = np.array([isinstance(text, str) and bool(text.strip()) for text in texts], bool)
        size = self._dim or self._encoder.dim
        vectors = np.zeros((len(texts), size), self._precision)
        chosen = [text for text, use in zip(texts, usable, strict=True) if use]
        vectors[usable] = self._encoder.encode(chosen, normalize_embeddings=self._normalize, truncate_dim=self._dim)
        mask = pyarrow.array(~usable)
        column = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(vectors.reshape(-1)), size, mask=mask)
        return table.append_column("vector", column)


def encode_on_ray(
    source: str,
    out: str,
    *,
    model: str = "builtin",
    address: str | None = None,
    workers: int = 0,
    cpus: float = 1,
    text: str = "text",
    dim: int | None = None,
    normalize: bool = True,
    precision: str = "float32",
    blocks: int | None = None,
) -> int:
    """Encode Parquet files on a cluster; returns the rows that were written.

    Args:
        source: a file or folder of Parquet.
        out: an empty or new folder.
        model: a name, or a directory that every node has.
        address: of a running cluster ("auto", "ray://host:10001"); a local one is started without it.
        workers: actors that encode; as many as the cluster has processors for, without it.
        cpus: processors of an actor; leave some for reading, or nothing moves.
        text: the column with the sentences.
        dim: only the first dimensions.
        normalize: vectors of length 1.
        precision: float32 or float16.
        blocks: pieces that the input is cut into; Ray decides without it.
    """
    try:
        import ray
    except ImportError:
        raise UsageError("a cluster needs Ray: pip install 'kosbert[ray]'") from None
    from fsspec.core import url_to_fs

    system, path = url_to_fs(out)
    if system.exists(path) and system.ls(path):
        raise UsageError(f"{out} is not empty, and rows would be there twice: give a new folder")
    started = not ray.is_initialized()
    if started:
        try:
            ray.init(address=address, log_to_driver=False, include_dashboard=False, configure_logging=False)
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise KosbertError(f"there is no Ray cluster at {address} ({error}): start one, or leave it out") from error
    try:
        rows = ray.data.read_parquet(source, override_num_blocks=blocks)
        if text not in rows.schema().names:
            raise UsageError(f"{source} has no column {text!r}: name one of {', '.join(rows.schema().names)}")
        most = workers or max(1, int(ray.cluster_resources().get("CPU", 1) // cpus) - 1)
        encoded = rows.map_batches(
            Worker,
            fn_constructor_args=(model, text, dim, normalize, precision),
            batch_size=BATCH,
            batch_format="pyarrow",
            num_cpus=cpus,
            concurrency=(1, most),
        )
        encoded.write_parquet(out)
        return int(ray.data.read_parquet(out).count())
    except ray.exceptions.RayError as error:
        reason = str(error).strip().splitlines()[-1][:300]
        raise KosbertError(
            f"the cluster could not encode {source} ({reason}): run it again into a new folder"
        ) from error
    finally:
        if started:
            ray.shutdown()
