"""The folder of one test session, which disappears with it. Must not know what is kept in it."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

_WATCHDOG = Path(__file__).with_name("watchdog.py")
# A unix socket's path has at most 107 bytes; servers add up to 40 to ours.
_LONGEST_TEMPORARY_FOLDER = 40


class PrivateFolder:
    """A new folder with a short path, watched by a process that clears up if this process dies."""

    def __init__(self) -> None:
        parent = tempfile.gettempdir()
        if len(parent) > _LONGEST_TEMPORARY_FOLDER:
            parent = "/tmp"
        self.path = Path(tempfile.mkdtemp(prefix="sqljobs-test-", dir=parent))
        # PostgreSQL runs as another user when the tests run as root.
        self.path.chmod(0o755)
        self._owner = os.getpid()
        self._watchdog = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_WATCHDOG), str(self._owner), str(self.path)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )

    @property
    def is_ours(self) -> bool:
        """False in a forked child, which must leave folder and servers to the process that made them."""
        return os.getpid() == self._owner

    def remove(self) -> None:
        """Remove folder and watchdog; the processes that use the folder have been stopped by then."""
        self._watchdog.terminate()
        self._watchdog.wait()
        shutil.rmtree(self.path, ignore_errors=True)
