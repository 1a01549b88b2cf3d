"""For tests of handlers, and of code that enqueues: no process, no supervisor, nothing committed."""

from sqljobs.supervisor.inline import drain
from sqljobs.worker_runtime.testing import Outcome, enqueued, run_inline

__all__ = ["Outcome", "drain", "enqueued", "run_inline"]
