"""One card as the driver sees it while a verify runs; where there is none it knows nothing and says so."""

from __future__ import annotations

import contextlib

from hotkernel.errors import ToolError
from hotkernel.machine import driver as gpu_driver
from hotkernel.schema.gpu import GpuState


class OneCard:
    """A card by its uuid; None is no card."""

    def __init__(self, uuid: str | None) -> None:
        self.driver, self.handle = None, None
        if uuid:
            with contextlib.suppress(ToolError):
                self.driver = gpu_driver.open_driver()
                self.handle = self.driver.handle(uuid)

    def moment(self) -> tuple[int | None, int | None]:
        """SM clock in MHz and the mask of throttle reasons, now."""
        if self.driver is None or self.handle is None:
            return None, None
        return self.driver.clock_and_reasons(self.handle)

    def state(self) -> GpuState | None:
        """The card at this moment."""
        return self.driver.state(self.handle) if self.driver and self.handle else None

    def processes_beside(self, ours: int) -> int | None:
        """How many processes compute on the card beside so many; a container may number them differently, so they are
        counted."""
        state = self.state()
        return None if state is None or state.processes is None else max(0, len(state.processes) - ours)
