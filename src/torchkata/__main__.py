"""python -m torchkata is the command torchkata."""

from torchkata.cli import main

main()
