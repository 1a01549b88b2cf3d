"""The recipes of docs/telemetry.md, as they are printed: what arrives at a collector."""

import gzip
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_documents import FILE, PYTHON, ROOT
from tests.queue.conftest import Queue, Supervisors, usually_on

pytestmark = usually_on("sqlite")
DOCUMENT = (ROOT / "docs" / "telemetry.md").read_text()
RECIPES = dict(FILE.findall(DOCUMENT))


class Collector(BaseHTTPRequestHandler):
    """Takes what is posted."""

    posted: list[bytes]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.posted.append(gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body)
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing to stderr."""


@pytest.fixture
def collector() -> Iterator[tuple[int, list[bytes]]]:
    """Its port on 127.0.0.1, and what was posted there."""
    posted: list[bytes] = []
    with ThreadingHTTPServer(("127.0.0.1", 0), type("One", (Collector,), {"posted": posted})) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port, posted
        server.shutdown()
        thread.join()


def written(folder: Path, name: str) -> Path:
    path = folder / name
    path.write_text(RECIPES[name])
    return path


def events_in(envelope: bytes) -> list[dict[str, Any]]:
    """The events of what Sentry's SDK sends: a header, then pairs of header and payload."""
    lines = [json.loads(line) for line in envelope.splitlines() if line]
    return [payload for header, payload in zip(lines[1::2], lines[2::2], strict=True) if header["type"] == "event"]


def test_every_recipe_is_run_here() -> None:
    assert len(PYTHON.findall(DOCUMENT)) == len(RECIPES) == 2


def test_sentry(
    queue: Queue,
    supervisors: Supervisors,
    tmp_path: Path,
    collector: tuple[int, list[bytes]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    port, posted = collector
    monkeypatch.setenv("SENTRY_DSN", f"http://key@127.0.0.1:{port}/7")
    job_id = queue.enqueue("charge", {"order": 12})
    supervisors.run_until_idle(handlers=written(tmp_path, "with_sentry.py"))
    assert queue.job(job_id).attempts[0].cause == "error"
    (event,) = [event for envelope in posted for event in events_in(envelope)]
    (raised,) = event["exception"]["values"]
    assert (raised["type"], raised["value"]) == ("ConnectionError", "no answer for order 12")
    assert raised["stacktrace"]["frames"][-1]["function"] == "charge"
    assert event["logger"] == "sqljobs.job"
    assert event["tags"] == {"job_id": str(job_id), "job_type": "charge", "attempt": "1"}


def test_opentelemetry(queue: Queue, supervisors: Supervisors, tmp_path: Path) -> None:
    good, bad = (queue.enqueue("ship", {"order": order}) for order in (1, 2))
    supervisors.run_until_idle(handlers=written(tmp_path, "with_opentelemetry.py"))
    assert [queue.job(job_id).state for job_id in (good, bad)] == ["done", "failed"]
    spans = [json.loads(line) for line in (tmp_path / "spans.jsonl").read_text().splitlines()]
    attempts = {span["attributes"]["job.id"]: span for span in spans if span["name"] == "ship"}
    inner = [span for span in spans if span["name"] == "pack"]
    assert (len(spans), set(attempts)) == (4, {good, bad})
    assert {span["parent_id"] for span in inner} == {span["context"]["span_id"] for span in attempts.values()}
    assert attempts[good]["status"]["status_code"] == "UNSET"
    assert attempts[good]["end_time"] is not None
    assert attempts[bad]["status"]["status_code"] == "ERROR"
    assert attempts[bad]["attributes"] == {"job.id": bad, "job.attempt": 1, "job.group": "default"}
    (event,) = attempts[bad]["events"]
    assert event["attributes"]["exception.type"] == "KeyError"
    assert attempts[bad]["resource"]["attributes"]["service.name"] == "shop"
