"""A worker process of the tables: it runs units until none is left."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from studies.risp.tables.claims import claimed, done, failed, mark_done, mark_failed
from studies.risp.tables.plan import TablePlan
from studies.risp.tables.units import Unit, planned
from ti_sim import DivergenceError, UserError

_PAUSE = 0.3  # s between polls of units of other processes
_BY_TORCHRUN = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def ranked(units: Mapping[str, Unit]) -> list[Unit]:
    """Units by the time of the longest dependency chain that begins with them, longest first."""
    chains: dict[str, float] = {}
    for unit in reversed(list(units.values())):  # dependents come after their dependencies
        chains[unit.name] = unit.prior + chains.get(unit.name, 0.0)
        for need in unit.needs:
            chains[need] = max(chains.get(need, 0.0), chains[unit.name])
    return sorted(units.values(), key=lambda unit: -chains[unit.name])


def work_through(plan: TablePlan, *, since: float) -> None:
    """Run units until all are done, have failed, or depend on a failed one.

    Args:
        plan: what is to be done.
        since: failures before this time [s of the epoch] are repeated.
    """
    units = planned(plan)
    waiting = ranked(units)
    while waiting:
        waiting = [unit for unit in waiting if done(plan.out / unit.name) is None and not _hopeless(plan, units, unit, since)]
        if not any(_ready(plan, unit) and _attempt(plan, unit, since) for unit in waiting) and waiting:
            time.sleep(_PAUSE)


def _ready(plan: TablePlan, unit: Unit) -> bool:
    return all(done(plan.out / need) is not None for need in unit.needs)


def _hopeless(plan: TablePlan, units: Mapping[str, Unit], unit: Unit, since: float) -> bool:
    """Whether a unit or one of its dependencies has failed."""
    needs = (units[need] for need in unit.needs)
    return failed(plan.out / unit.name, since=since) is not None or any(_hopeless(plan, units, n, since) for n in needs)


def _attempt(plan: TablePlan, unit: Unit, since: float) -> bool:
    """Run a unit that no other process has claimed; return whether there was work."""
    from studies.risp.tables.perform import perform

    folder = plan.out / unit.name
    with claimed(folder) as mine:
        if not mine or done(folder) is not None or failed(folder, since=since) is not None:
            return False
        print(f"\n{unit.name}", flush=True)
        began = time.time()
        try:
            perform(plan, unit)
        except UserError as error:
            print(f"failed: {error}", flush=True)
            mark_failed(folder, str(error), status=3 if isinstance(error, DivergenceError) else 2, time=time.time())
        else:
            mark_done(folder, time.time() - began)
        return True


def _end_with(parent: int) -> None:
    """End this process when its parent ends, because nothing else would stop it."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_PAUSE)
        os._exit(130)

    threading.Thread(target=watch, daemon=True).start()


def main() -> int:
    """With the arguments PLAN-FILE SINCE PARENT THREADS (``work`` starts it)."""
    plan_file, since, parent, threads = sys.argv[1:]
    for name in _BY_TORCHRUN:  # every worker trains networks of its own
        os.environ.pop(name, None)
    _end_with(int(parent))
    import torch

    from ti_sim import start

    plan = TablePlan.from_json(Path(plan_file).read_text(encoding="utf-8"))
    torch.set_num_threads(int(threads))
    start(device=plan.device, precision="f32", threads=int(threads))
    work_through(plan, since=float(since))
    return 0


if __name__ == "__main__":
    sys.exit(main())
