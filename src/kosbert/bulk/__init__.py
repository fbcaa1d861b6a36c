"""Bulk encoding: millions of sentences to shards of vectors in constant memory, on one machine or a Ray cluster."""

from kosbert.bulk.encode import EncodeSummary, encode_file
from kosbert.bulk.shards import read_shards

__all__ = ["EncodeSummary", "encode_file", "read_shards"]
