"""Real database servers that the tests start for themselves. Knows nothing of the product.

Tests ask for the fixtures `server` and `db_url` (stress/servers/fixtures.py). Each server lives in the
session's private folder under the temporary directory, listens on a free port of 127.0.0.1 only, starts
at its first use, and is gone with its folder when pytest ends, however pytest ends (watchdog.py).

Variables: SQLJOBS_REQUIRE_SERVERS=1 makes a missing server a failure instead of a skip;
SQLJOBS_TEST_FSYNC=1 keeps fsync on (off by default: commits survive the death of a server, not of the
machine); SQLJOBS_TEST_CACHE is where initialised data folders and the unpacked MySQL are kept.
"""

from stress.servers.registry import Servers
from stress.servers.server import KINDS, Kind, Server, ServerFailed, ServerUnavailable, StopMode

__all__ = ["KINDS", "Kind", "Server", "ServerFailed", "ServerUnavailable", "Servers", "StopMode"]
