"""The pytest side of the test servers: fixtures `server`, `db_url` and `pooled_url`, option `--db`, marker `databases`.

A folder of tests gets them by importing this module's names into its conftest.py.
"""

import os
from collections.abc import Iterator
from typing import NoReturn

import pytest

from stress.servers.pgbouncer import Pgbouncer
from stress.servers.postgresql import Postgresql
from stress.servers.registry import Servers
from stress.servers.server import KINDS, Server, ServerFailed, ServerUnavailable

_servers = pytest.StashKey[Servers]()
_unavailable = pytest.StashKey[dict[str, str]]()
_INSTALL = "sh scripts/install-test-servers"


def pytest_addoption(parser: pytest.Parser) -> None:
    """--db narrows the kinds of database; taken once, though more than one conftest.py may bring it."""
    try:
        parser.addoption("--db", metavar="KIND,...", help=f"only these of {', '.join(KINDS)}")
        parser.addoption("--half", type=int, choices=(1, 2), help="only half of the tests, for two runs at once")
    except ValueError:
        return


def pytest_configure(config: pytest.Config) -> None:
    """Make the (still empty) set of servers, to be stopped at the very end."""
    if _servers in config.stash:
        return
    config.addinivalue_line("markers", "databases(*kinds): run with only these kinds of server")
    unknown = set(_asked_for(config)) - set(KINDS)
    if unknown:
        raise pytest.UsageError(f"--db: unknown {', '.join(sorted(unknown))}; there are {', '.join(KINDS)}")
    config.stash[_unavailable] = {}
    config.stash[_servers] = Servers()
    config.add_cleanup(config.stash[_servers].close)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test that uses `server` (or `db_url`) once with each kind."""
    if "server" not in metafunc.fixturenames:
        return
    marker = metafunc.definition.get_closest_marker("databases")
    allowed = marker.args if marker else KINDS
    kinds = [kind for kind in KINDS if kind in allowed and kind in _asked_for(metafunc.config)]
    metafunc.parametrize("server", kinds, indirect=True, scope="session")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """--half 1 is what runs on MariaDB and MySQL, or without a database, --half 2 what runs on SQLite and PostgreSQL:
    each server is started by one run only."""
    half = config.getoption("--half")
    if half is None:
        return
    chosen = [item for item in items if (_kind_of(item) in ("mariadb", "mysql", None)) == (half == 1)]
    config.hook.pytest_deselected(items=[item for item in items if item not in set(chosen)])
    items[:] = chosen


def _kind_of(item: pytest.Item) -> object:
    called = getattr(item, "callspec", None)
    return None if called is None else called.params.get("server")


@pytest.fixture(scope="session")
def server(request: pytest.FixtureRequest) -> Server:
    """A running database server; every test that asks is run once with each kind."""
    try:
        return request.config.stash[_servers].get(request.param)
    except ServerUnavailable as missing:
        _refuse(request, request.param, missing)
    except ServerFailed as failure:
        pytest.fail(str(failure), pytrace=False)


def _refuse(request: pytest.FixtureRequest, name: str, missing: ServerUnavailable) -> NoReturn:
    """Skip loudly what cannot be tested here; fail where nothing may be left out."""
    request.config.stash[_unavailable][name] = str(missing)
    words = f"{name} NOT TESTED: {missing}; run `{_INSTALL}`"
    if os.environ.get("SQLJOBS_REQUIRE_SERVERS") == "1":
        pytest.fail(words, pytrace=False)
    pytest.skip(words)


@pytest.fixture
def db_url(server: Server) -> Iterator[str]:
    """SQLAlchemy URL of a new, empty database, dropped after the test even with clients connected."""
    server.start()
    url = server.new_database()
    yield url
    server.start()
    server.drop_database(url)


@pytest.fixture
def pooled_url(request: pytest.FixtureRequest, server: Server, db_url: str) -> Iterator[str]:
    """The database of `db_url`, on PostgreSQL, through a connection pooler in transaction mode."""
    assert isinstance(server, Postgresql), "mark the test with databases('postgresql')"
    try:
        pooler = Pgbouncer(server)
    except ServerUnavailable as missing:
        _refuse(request, "pgbouncer", missing)
    with pooler:
        yield pooler.through(db_url)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say at the end, in one line a kind, which databases were not tested."""
    # Emptied, since each conftest.py that imports this hook has it called.
    unavailable, config.stash[_unavailable] = config.stash[_unavailable], {}
    for kind, reason in unavailable.items():
        terminalreporter.write_line(f"NOT TESTED with {kind}: {reason}; run `{_INSTALL}`", red=True, bold=True)


def _asked_for(config: pytest.Config) -> tuple[str, ...]:
    given = config.getoption("--db")
    return tuple(given.split(",")) if given else KINDS
