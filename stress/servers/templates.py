"""Initialised data folders, kept between sessions, since initialising takes seconds and copying does not."""

import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path


def cache_folder() -> Path:
    """Where things that are costly to make are kept; scripts/install-test-servers uses the same."""
    given = os.environ.get("SQLJOBS_TEST_CACHE")
    return Path(given) if given else Path.home() / ".cache" / "sqljobs-test"


def fill_from_template(kind: str, key: str, target: Path, initialise: Callable[[], None]) -> None:
    """Make the data folder `target`, from the template of this kind and key if there is one.

    `key` names all that the content depends on (program version, arguments). Without a template,
    `initialise()` has to make `target`, of which a copy becomes the template.
    """
    templates = cache_folder() / "templates"
    templates.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256(f"{key} uid={os.getuid()}".encode()).hexdigest()[:16]
    template = templates / f"{kind}-{digest}"
    if not template.exists():
        with (templates / f"{kind}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not template.exists():
                initialise()
                _keep_copy(target, template)
                return
    _copy(template, target)


def _keep_copy(source: Path, template: Path) -> None:
    """Copy under another name first: a folder with the template's name is always whole."""
    half_made = template.with_suffix(".half-made")
    shutil.rmtree(half_made, ignore_errors=True)
    _copy(source, half_made)
    half_made.rename(template)


def _copy(source: Path, target: Path) -> None:
    # cp keeps owners and holes, and shares blocks where the file system can.
    subprocess.run(["cp", "-a", "--reflink=auto", "--", source, target], check=True)
