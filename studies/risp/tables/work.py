"""Worker processes for the units of some tables, their shared settings, and the progress bar."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tqdm import tqdm

from risp_torch.programs import RunFolder, process_exists, write_text
from studies.risp.tables.claims import done, failed, is_claimed
from studies.risp.tables.plan import TablePlan
from studies.risp.tables.provenance import note_provenance
from studies.risp.tables.units import Unit, planned
from ti_sim import Count, FromZero, UserError, checked

_PAUSE, _POLLS = 0.5, 6  # s between polls of the workers, and number of these per poll of the units
_TAKEN_OVER = 0.01  # of a prior: units that took less existed already and are not used for estimates
_LISTED = 60  # characters for the names of units in the bar
_WORKER = (  # its first argument is the module path
    "import json, sys; sys.path[:] = json.loads(sys.argv.pop(1)); "
    "from studies.risp.tables.worker import main; sys.exit(main())"
)
_PLANS = "plan-*-of-*.json"  # plans of workers; the last part is the id of their process
_BAR = "{desc}: {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} [{elapsed}{postfix}]"  # no rate: units take seconds to half an hour


@dataclass(frozen=True)
class Outcome:
    """Outcome of the work.

    Attributes:
        units: all planned units.
        failures: name of a unit -> why it failed, and its exit status.
        missing: units that were not run because a dependency failed or a worker ended.
        lost: sentences on workers that ended before their work was done.
    """

    units: Mapping[str, Unit]
    failures: Mapping[str, Mapping[str, Any]]
    missing: Sequence[str]
    lost: Sequence[str]

    @property
    def status(self) -> int:
        """Exit status: 0 when all is done, 2 for wrong input, 3 for a divergence, 1 for a worker that ended."""
        if self.lost and self.missing:
            return 1
        return max((failure["status"] for failure in self.failures.values()), default=0)

    def sentences(self) -> list[str]:
        """Sentences on unfinished work, with units that failed for the same reason together."""
        reasons: dict[str, list[str]] = defaultdict(list)
        for name, failure in self.failures.items():
            reasons[failure["reason"]].append(name)
        said = [f"{_listed(names)} failed: {reason}" for reason, names in reasons.items()]
        if self.missing:
            said += [*self.lost, f"{_listed(self.missing)} not done: the same command resumes the work"]
        return said


@checked
def work(plan: TablePlan, *, processes: Count, rank: FromZero = 0, progress: bool = True) -> Outcome:
    """Run all unfinished units.

    Under ``torchrun`` every rank calls this; rank 0 shows the bar and waits for all.

    Args:
        plan: the plan.
        processes: number of workers that this process starts.
        rank: index of this process.
        progress: whether to show a progress bar.

    Raises:
        UserError: there is no worker, or the folder has results of other settings.
    """
    keep_settings(plan)
    if rank == 0:
        note_provenance(plan.out)
    units, since = planned(plan), time.time()
    _remove_plans(plan)
    workers = [_started(plan, f"{rank}-{number}", since, processes) for number in range(processes)]
    try:
        with tqdm(total=len(units), desc="tables", bar_format=_BAR, disable=not progress or rank > 0) as bar:
            while any(worker.poll() is None for worker in workers):
                _show(bar, plan, units, processes)
                _wait(workers)
            _show(bar, plan, units, processes)
    finally:
        for worker in workers:
            if worker.poll() is None:
                worker.terminate()
        for worker in workers:
            worker.wait()
        for plan_file in (plan.out / "logs").glob(_plan_file(f"{rank}-*")):
            plan_file.unlink()
    failures = {name: record for name in units if (record := failed(plan.out / name, since=since)) is not None}
    missing = [name for name in units if name not in failures and done(plan.out / name) is None]
    lost = [_sentence(plan, f"{rank}-{n}", worker.returncode) for n, worker in enumerate(workers) if worker.returncode]
    return Outcome(units, failures, missing, lost)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _wait(workers: Sequence[subprocess.Popen[bytes]]) -> None:
    """A few seconds, or until all workers have ended."""
    for _ in range(_POLLS):
        if any(worker.poll() is None for worker in workers):
            time.sleep(_PAUSE)


def keep_settings(plan: TablePlan) -> None:
    """Save the settings of a folder, or compare them with the existing ones.

    Raises:
        UserError: the folder holds results of other settings.
    """
    try:
        RunFolder.open_or_create(plan.out, {"tables": plan.preset.deciding()}, shared=True)
    except UserError as error:
        raise UserError(f"results of other settings are not mixed: {error}") from None


def _plan_file(name: str) -> str:
    """For this process alone: another command may work on the same folder."""
    return f"plan-{name}-of-{os.getpid()}.json"


def _remove_plans(plan: TablePlan) -> None:
    """Remove the plan files of killed processes."""
    for file in (plan.out / "logs").glob(_PLANS):
        process = file.stem.rpartition("-of-")[2]
        if process.isdecimal() and not process_exists(int(process)):
            file.unlink(missing_ok=True)


def _started(plan: TablePlan, name: str, since: float, processes: int) -> subprocess.Popen[bytes]:
    """Start a worker with its share of the cores and its own log.

    It uses the module path of this process; ``-P`` excludes the working folder.
    """
    threads = str(max(1, len(os.sched_getaffinity(0)) // processes))
    logs = plan.out / "logs"
    plan_file = logs / _plan_file(name)
    write_text(plan_file, plan.to_json())
    environment = os.environ | {"OMP_NUM_THREADS": threads, "TI_CPU_MAX_NUM_THREADS": threads, "PYTHONUNBUFFERED": "1"}
    arguments = (json.dumps(sys.path), plan_file, since, os.getpid(), threads)
    command = [sys.executable, "-P", "-c", _WORKER, *map(str, arguments)]
    with open(logs / f"worker-{name}.log", "ab") as log:
        return subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment)


def _sentence(plan: TablePlan, name: str, status: int) -> str:
    ending = f"signal {-status}" if status < 0 else f"status {status}"
    log = plan.out / "logs" / f"worker-{name}.log"
    last = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:]
    return f"a worker ended with {ending} ({log}: {' '.join(last)})"


def _show(bar: tqdm, plan: TablePlan, units: Mapping[str, Unit], processes: int) -> None:
    """Show finished and running units, and the estimated remaining time."""
    notes = {name: done(plan.out / name) for name in units}
    bar.n = sum(note is not None for note in notes.values())
    running = [name for name, note in notes.items() if note is None and is_claimed(plan.out / name)]
    left = time_left(units, {name: note["seconds"] for name, note in notes.items() if note is not None}, processes)
    names = ", ".join(running)
    running_text = names if len(names) <= _LISTED else names[: _LISTED - 3] + "..."
    bar.set_postfix_str(f"about {_clock(left)} left; {running_text}", refresh=True)


def time_left(units: Mapping[str, Unit], seconds: Mapping[str, float], processes: int) -> float:
    """Estimated time of the unfinished units [s].

    The estimate is the mean of the unit's group; without measurements, its prior times the mean ratio of measured times to
    priors.

    Args:
        units: all.
        seconds: name of each finished unit -> time that it took.
        processes: number of processes that share the work.
    """
    groups: dict[str, list[float]] = defaultdict(list)
    for name, value in seconds.items():
        groups[units[name].group].append(value)
    measured = [name for name, value in seconds.items() if value > _TAKEN_OVER * units[name].prior]
    ratio = sum(seconds[name] for name in measured) / sum(units[name].prior for name in measured) if measured else 1.0
    rest = [unit for name, unit in units.items() if name not in seconds]
    unit_times = [sum(groups[u.group]) / len(groups[u.group]) if u.group in groups else ratio * u.prior for u in rest]
    return max(sum(unit_times) / processes, max(unit_times, default=0.0))


def _clock(seconds: float) -> str:
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60:02d} min" if minutes >= 60 else f"{minutes} min" if minutes else "less than a minute"
