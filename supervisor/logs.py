"""The supervisor's log lines on stderr: readable on a terminal, JSON elsewhere. A closed stderr harms nobody."""

from __future__ import annotations

import sys
from typing import Any

import structlog


class _Stderr:
    """Looked up at each line, since a test or a host program may replace it; a line that cannot go out is dropped."""

    def write(self, text: str) -> None:
        if sys.stderr is None:  # the process was started without one
            return
        try:
            sys.stderr.write(text)
        except (OSError, ValueError):
            return

    def flush(self) -> None:
        if sys.stderr is None:
            return
        try:
            sys.stderr.flush()
        except (OSError, ValueError):
            return


def supervisor_log(supervisor: str) -> Any:
    """A logger of our own, bound to the supervisor's name; the host program's structlog settings stay as they are."""
    terminal = sys.stderr is not None and sys.stderr.isatty()
    renderer: Any = structlog.dev.ConsoleRenderer() if terminal else structlog.processors.JSONRenderer()
    processors = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        renderer,
    ]
    if terminal:  # the console renderer shows tracebacks itself
        processors.remove(structlog.processors.format_exc_info)
    logger = structlog.PrintLogger(file=_Stderr())  # type: ignore[arg-type]  # write and flush are all it uses
    return structlog.wrap_logger(logger, processors=processors).bind(supervisor=supervisor)
