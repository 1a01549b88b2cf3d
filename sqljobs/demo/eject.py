"""`sqljobs demo --eject DIR`: the demo's own handlers and pipeline as files to start from."""

from __future__ import annotations

from pathlib import Path

from sqljobs.schema.errors import InvalidJob

PACKAGE = "sqljobs.demo.handlers"
README = """\
# An index of source code, made by jobs

`handlers.py` holds the job types: plain functions. `pipeline.py` enqueues them, in one transaction.

    sqljobs init
    python pipeline.py FOLDER_OF_PYTHON_SOURCES
    sqljobs run --handlers handlers.py --until-idle

Then look: `sqljobs status`, `sqljobs list`, and `sqljobs show ID` with the last id that pipeline.py printed.
The database is the file sqljobs.db in this folder; another one: `export SQLJOBS_URL=postgresql://user@host/name`.

Two jobs fail on purpose at their first attempt, so that you see them tried again. For code of your own, drop
`mishap` from both files, and start from `index_package`: its arguments come from `.spec(...)`, its result is what
it returns, and `merge_index` shows how a job reads the results of those that it waited for.
"""


def eject(directory: Path) -> list[Path]:
    """Write handlers.py, pipeline.py and README.md into `directory`, made if missing; returns their paths.

    Raises `InvalidJob`, before anything is written, if one of them is there already or cannot be written."""
    here = Path(__file__).parent
    contents = {
        "handlers.py": (here / "handlers.py").read_text("utf-8"),
        "pipeline.py": (here / "pipeline.py").read_text("utf-8").replace(f"from {PACKAGE} ", "from handlers "),
        "README.md": README,
    }
    taken = [directory / name for name in contents if (directory / name).exists()]
    if taken:
        raise InvalidJob(f"{taken[0]} is there already: name an empty folder")
    written = []
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name, content in contents.items():
            with open(directory / name, "x", encoding="utf-8") as file:
                file.write(content)
            written.append(directory / name)
    except OSError as error:
        raise InvalidJob(f"{directory} cannot be written to ({error.strerror}): name another folder") from error
    return written
