"""The command line. Thin: a command parses, calls one function, prints."""

from kosbert.cli.app import main

__all__ = ["main"]
