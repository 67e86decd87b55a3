"""The ``feedline`` command; ``feedline --help`` lists what it does."""

import sys

from feedline._engine import command


def main() -> None:
    """Run it."""
    arguments = ["feedline", *sys.argv[1:]]
    sys.exit(command(arguments, [sys.executable, "-m", "feedline"], sys.executable))


if __name__ == "__main__":
    main()
