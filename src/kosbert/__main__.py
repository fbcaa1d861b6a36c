"""`python -m kosbert`, for launchers such as torchrun."""

from kosbert.cli import main

main()
