"""The rules of the house, kept by reading the sources: who imports whom, and what may stand where."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("schema", "worker_runtime", "supervisor")
LONGEST_FILE = 250
FORBIDDEN_NAMES = {"utils", "util", "helpers", "helper", "common", "manager", "base", "misc"}
# The child starts from the registry; the supervisor needs no more of what an author imports.
SUPERVISOR_MAY_IMPORT = {
    *("worker_runtime.child", "worker_runtime.registry", "worker_runtime.post_fork", "worker_runtime.arguments"),
    *("worker_runtime.enqueue", "worker_runtime.wait", "worker_runtime.process_mark"),
    *("worker_runtime.inline", "worker_runtime.write_end", "worker_runtime.current_job", "worker_runtime.endings"),
    *("worker_runtime.stop_request", "worker_runtime.stack_dump", "worker_runtime.descriptions"),
}
SQL_NAMES = {"select", "insert", "update", "delete", "text", "exists", "func", "literal", "tuple_", "case"}
PROCESS_CALLS = {
    *("os.fork", "os.forkpty", "os.kill", "os.killpg", "os.wait", "os.wait3", "os.wait4", "os.waitpid", "os.waitid"),
    *("os.posix_spawn", "os.posix_spawnp", "os.execv", "os.execve", "os.system", "os.popen", "subprocess.Popen"),
    *("subprocess.run", "subprocess.check_call", "subprocess.check_output", "signal.pidfd_send_signal"),
}


def sources(*folders: str) -> Iterator[tuple[str, ast.Module]]:
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield str(path.relative_to(ROOT)), ast.parse(path.read_text())


def imports(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """(module, name) of each import; name is '' for `import module`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield from ((node.module or "", alias.name) for alias in node.names)


def dotted(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def ours(module: str, name: str) -> str:
    """`schema.x` for `from sqljobs.schema import x`, and for `from sqljobs.schema.x import y`."""
    inner = module.removeprefix("sqljobs.")
    return f"{inner}.{name}" if inner in FOLDERS else inner


def test_imports_point_one_way() -> None:
    allowed = {"schema": {"schema"}, "worker_runtime": {"schema", "worker_runtime"}, "supervisor": set(FOLDERS)}
    wrong = [
        f"{path} imports {module}"
        for folder in FOLDERS
        for path, tree in sources(folder)
        for module, _ in imports(tree)
        if module.startswith("sqljobs.") and module.split(".")[1] in FOLDERS
        if module.split(".")[1] not in allowed[folder]
    ]
    assert wrong == []


def test_the_supervisor_takes_little_from_the_worker_runtime() -> None:
    taken = {
        ours(module, name)
        for _, tree in sources("supervisor")
        for module, name in imports(tree)
        if module.startswith("sqljobs.worker_runtime")
    }
    assert taken <= SUPERVISOR_MAY_IMPORT


def test_only_schema_builds_sql() -> None:
    wrong = [
        f"{path} imports {module}.{name}"
        for path, tree in sources("worker_runtime", "supervisor")
        for module, name in imports(tree)
        if module.startswith("sqlalchemy") and (name in SQL_NAMES or name == "")
    ]
    assert wrong == []


def test_one_file_asks_psutil() -> None:
    users = {
        path for path, tree in sources(*FOLDERS) for module, _ in imports(tree) if module.split(".")[0] == "psutil"
    }
    assert users == {"supervisor/liveness.py"}


def test_one_file_forks_waits_and_signals() -> None:
    users = {
        path
        for path, tree in sources(*FOLDERS)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and dotted(node.func) in PROCESS_CALLS
    }
    assert users == {"supervisor/children.py"}


def test_the_parent_starts_no_threads() -> None:
    wrong = [
        path
        for path, tree in sources("supervisor")
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and dotted(node.func) in ("threading.Thread", "threading.Timer", "Thread")
    ]
    assert wrong == []


@pytest.mark.parametrize("folder", FOLDERS)
def test_files_are_short_and_well_named(folder: str) -> None:
    for path in sorted((ROOT / folder).rglob("*.py")):
        assert path.stem not in FORBIDDEN_NAMES, path
        if "migrations" not in path.parts:
            lines = len(path.read_text().splitlines())
            assert lines <= LONGEST_FILE, f"{path.relative_to(ROOT)} has {lines} lines: is it one duty?"


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_module_says_what_it_is_for(folder: str) -> None:
    silent = [path for path, tree in sources(folder) if not ast.get_docstring(tree) and tree.body]
    assert silent == []


def test_no_except_swallows() -> None:
    silent = [
        f"{path}:{node.lineno}"
        for path, tree in sources(*FOLDERS)
        for node in ast.walk(tree)
        if isinstance(node, ast.ExceptHandler) and all(isinstance(line, ast.Pass) for line in node.body)
    ]
    assert silent == []
