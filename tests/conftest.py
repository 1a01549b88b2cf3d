"""What all tests share: real database servers (tests/servers). Nothing else belongs here."""

import signal

from tests.servers.fixtures import (
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
