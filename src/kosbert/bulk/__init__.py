"""The bulk room: millions of sentences to shards of vectors, in constant memory, on one machine or on many."""

from kosbert.bulk.encode import EncodeSummary, encode_file

__all__ = ["EncodeSummary", "encode_file"]
