"""The command line. Thin: each command parses its arguments, calls one function and prints the result."""

from kosbert.cli.app import main

__all__ = ["main"]
