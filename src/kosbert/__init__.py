"""Korean sentence embeddings, from labelled pairs to a served model."""

from importlib.metadata import version

__version__ = version("kosbert")
