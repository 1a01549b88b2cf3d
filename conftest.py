"""What all tests share: real database servers (stress/servers), and a process that each leaves as it was."""

import signal

import pytest

from sqljobs.worker_runtime import child_hooks, registry
from stress.servers.fixtures import (
    db_url,
    pooled_url,
    pytest_addoption,
    pytest_collection_modifyitems,
    pytest_configure,
    pytest_generate_tests,
    pytest_terminal_summary,
    server,
)

__all__ = [
    "db_url",
    "pooled_url",
    "pytest_addoption",
    "pytest_collection_modifyitems",
    "pytest_configure",
    "pytest_generate_tests",
    "pytest_terminal_summary",
    "server",
]

# A shell that runs us in the background has SIGINT ignored, and every process that a test starts would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """The handlers and hooks that a test loads into this process would check and disturb what later tests do."""
    monkeypatch.setattr(registry, "_latest", dict(registry._latest))
    monkeypatch.setattr(child_hooks, "_registered", list(child_hooks._registered))
