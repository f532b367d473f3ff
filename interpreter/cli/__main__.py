"""`python -m interpreter.cli`, for where the `interpreter` command is not on the PATH."""

from interpreter.cli import main

main()
