"""`sqljobs`, and `python -m sqljobs.supervisor`: starts the command line and hands back its exit code."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(args: Sequence[str] | None = None) -> int:
    """Run the command line with `args` (None: those of this process); returns the exit code. Raises nothing."""
    try:
        # Loaded here, so that Ctrl-C during the second that this takes ends as quietly as later.
        from sqljobs.supervisor.cli.app import run_command_line

        return run_command_line(sys.argv[1:] if args is None else args)
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
