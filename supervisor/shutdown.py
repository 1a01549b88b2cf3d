"""How far a supervisor is on its way out. Pure: the time is passed in, nothing is stopped here."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Shutdown:
    """`state`: running; draining (claims nothing, lets children end); stopping (children are being killed).

    `kill_at`: when draining becomes stopping, on the caller's clock; None: not by time."""

    state: str = "running"
    kill_at: float | None = None

    @property
    def begun(self) -> bool:
        return self.state != "running"

    def ask(self, now: float, grace: float | None) -> None:
        """Asked to end: let children run for `grace` seconds, or without a limit (None). A second ask with a grace
        hurries: what still runs is killed now."""
        if grace is not None:
            self.kill_at = now if self.kill_at is not None else now + grace
        if not self.begun:
            self.state = "draining"

    def must_kill(self, now: float) -> bool:
        """True once, when the grace is over."""
        if self.state != "draining" or self.kill_at is None or now < self.kill_at:
            return False
        self.state = "stopping"
        return True

    def next_due(self) -> float | None:
        """When `must_kill` changes by time alone."""
        return self.kill_at if self.state == "draining" else None
