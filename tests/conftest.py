"""What all tests share: real database servers (tests/servers). Nothing else belongs here."""

from tests.servers.fixtures import (
    db_url,
    pytest_addoption,
    pytest_configure,
    pytest_generate_tests,
    pytest_terminal_summary,
    server,
)

__all__ = [
    "db_url",
    "pytest_addoption",
    "pytest_configure",
    "pytest_generate_tests",
    "pytest_terminal_summary",
    "server",
]
