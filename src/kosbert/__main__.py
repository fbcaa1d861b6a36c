"""`python -m kosbert`, which launchers such as torchrun need."""

from kosbert.cli import main

main()
