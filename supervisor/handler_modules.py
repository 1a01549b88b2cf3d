"""Import handlers modules by name, file or object, and say in one line why one does not import."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import sys
import sysconfig
import traceback
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import ModuleType

from sqljobs.schema.errors import BadHandlers
from sqljobs.schema.payloads import safe_text
from sqljobs.schema.renderings import shown
from sqljobs.schema.values import nearest
from sqljobs.supervisor.liveness import other_threads, resident_bytes, thread_ids
from sqljobs.worker_runtime.registry import JobType, forget_module, provided_by

Handlers = str | os.PathLike[str] | ModuleType
MESSAGE_BYTES = 500
_STDLIB = sysconfig.get_path("stdlib") + os.sep
_INSTALLED = ("site-packages", "dist-packages")


def load_handlers(
    handlers: Handlers | Iterable[Handlers], *, app_dir: str | os.PathLike[str] = "."
) -> dict[str, JobType]:
    """The job types that `handlers` (one, or several) provide; `app_dir` is where module names are looked for.

    Raises `BadHandlers`, naming file and line, for a module that does not import, registers a name twice, or none."""
    listed = _listed(handlers)
    if not listed:
        raise BadHandlers("no handlers: name a module or a file that declares job types")
    modules = [_load(item, Path(app_dir)) for item in listed]
    provided = provided_by(modules)
    if not provided:
        names = ", ".join(module.__name__ for module in modules)
        raise BadHandlers(f"{names} registers no job type: put @sqljobs.handler on a function")
    return provided


def load_preloaded(
    handlers: Handlers | Iterable[Handlers], *, app_dir: str | os.PathLike[str], only: Sequence[str]
) -> dict[str, JobType]:
    """The same, narrowed to the types `only`, for a process that forks: an import must leave no thread running, whose
    locks a child would inherit. Raises `BadHandlers`."""
    before = thread_ids()
    loaded = narrowed(load_handlers(handlers, app_dir=app_dir), only)
    if threads := other_threads(before):
        raise BadHandlers(
            f"importing the handlers left threads running ({', '.join(threads)}), which a fork does not copy: use"
            " --no-preload, or start them in a job"
        )
    refuse_outgrown(loaded, resident_bytes(os.getpid()))
    return loaded


def refuse_outgrown(job_types: Mapping[str, JobType], held: int) -> None:
    """A child begins with all that is loaded, `held` bytes: with more than its limit it would be killed at once.
    Raises `BadHandlers`."""
    for name, job_type in sorted(job_types.items()):
        limit = job_type.defaults.memory
        if limit is not None and held > limit:
            raise BadHandlers(
                f"the memory limit of {name!r}, {limit / 2**20:,.1f} MiB, is below the {held / 2**20:,.1f} MiB that"
                " a process holds after importing the handlers: raise it, or import less"
            )


def located(handlers: Handlers | Iterable[Handlers]) -> list[Handlers]:
    """The same handlers, wherever this process goes: files by their absolute names."""
    return [item if isinstance(item, ModuleType) else _absolute(os.fspath(item)) for item in _listed(handlers)]


def by_name(handlers: Handlers | Iterable[Handlers]) -> list[str]:
    """The same handlers as another process finds them: absolute files, and names of modules. Raises `BadHandlers`."""
    names = [item.__name__ if isinstance(item, ModuleType) else os.fspath(item) for item in located(handlers)]
    if "__main__" in names:
        raise BadHandlers("a job cannot import the program that you have started: put the handlers in another file")
    return names


def _absolute(text: str) -> str:
    return str(Path(text).resolve()) if _is_file(text) else text


def _listed(handlers: Handlers | Iterable[Handlers]) -> list[Handlers]:
    return [handlers] if isinstance(handlers, (str, os.PathLike, ModuleType)) else list(handlers)


def _is_file(text: str) -> bool:
    return text.endswith(".py") or os.sep in text


def _load(item: Handlers, app_dir: Path) -> ModuleType:
    if isinstance(item, ModuleType):
        return item
    text = os.fspath(item)
    try:
        if _is_file(text):
            return _load_file(Path(text))
        if not all(part.isidentifier() for part in text.split(".")):
            raise BadHandlers(f"handlers {text!r} is neither a module's name nor a .py file")
        _put_first_on_path(app_dir)
        return importlib.import_module(text)
    except BadHandlers:
        raise
    except BaseException as error:  # a module may raise SystemExit, too
        if isinstance(error, KeyboardInterrupt):
            raise
        raise BadHandlers(f"handlers {text!r} cannot be imported: {_why(error, text)}") from error


def _load_file(path: Path) -> ModuleType:
    path = path.resolve()
    if not path.is_file():
        raise BadHandlers(f"there is no handlers file {str(path)!r}")
    # A file beside it is imported by its plain name, as when the file is run.
    _put_first_on_path(path.parent)
    name = _name_for(path)
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise BadHandlers(f"{str(path)!r} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    former = sys.modules.get(name)
    forget_module(name)  # a type that was taken out of the file since is not provided any more
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        if former is None:
            del sys.modules[name]
        else:
            sys.modules[name] = former
        raise
    return module


def _name_for(path: Path) -> str:
    """The file's stem, unless a module of another file has that name."""
    other = sys.modules.get(path.stem)
    if other is None or getattr(other, "__file__", None) == str(path):
        return path.stem
    return f"{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"


def _put_first_on_path(folder: Path) -> None:
    entry = str(folder.resolve())
    if entry not in sys.path:
        sys.path.insert(0, entry)


def _why(error: BaseException, name: str) -> str:
    if isinstance(error, ModuleNotFoundError) and error.name == name.partition(".")[0]:
        return f"there is no module {error.name!r} (a file needs its path, such as ./{error.name}.py; see --app-dir)"
    if isinstance(error, SyntaxError):
        line = "" if error.lineno is None else f", line {error.lineno}"
        return f"{type(error).__name__}: {' '.join(str(error.msg).split())} ({error.filename or name}{line})"
    text = safe_text(error, limit_bytes=MESSAGE_BYTES)
    return f"{type(error).__name__}: {' '.join(text.split())}{_where(error)}"


def _where(error: BaseException) -> str:
    """The last line of the user's own code that led to `error`: not ours, nor a library's that it called."""
    places = [
        (Path(frame.f_code.co_filename), line)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if str(frame.f_globals.get("__name__")).partition(".")[0] != "sqljobs"
    ]
    installed = [(path, line) for path, line in places if any(part in path.parts for part in _INSTALLED)]
    own = [
        (path, line)
        for path, line in places
        if (path, line) not in installed and not str(path).startswith((_STDLIB, "<"))
    ]
    # Handlers may themselves be installed as a package.
    found = own or installed
    return f" ({found[-1][0]}, line {found[-1][1]})" if found else ""


def narrowed(job_types: Mapping[str, JobType], only: Sequence[str]) -> dict[str, JobType]:
    """Those that `only` names, all where it names none. Raises `BadHandlers` for a name that is not there."""
    for name in only:
        if name not in job_types:
            raise BadHandlers(f"only_type: no handler is called {shown(name)}{nearest(name, job_types)}")
    return {name: job_type for name, job_type in job_types.items() if not only or name in only}
