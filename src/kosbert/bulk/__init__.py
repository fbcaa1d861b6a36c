"""The bulk room: millions of sentences to shards of vectors, in constant memory, on one machine or on many."""

from kosbert.bulk.encode import Done, encode_file

__all__ = ["Done", "encode_file"]
