"""Peak rates of the machine: multiply-adds of one core, dependent multiply-adds, copies."""

from dataclasses import dataclass

import torch

from benchmarks.timing import best_time, best_times
from ti_sim.base.parallel import iterations_per_task
from ti_sim.base.runtime import require, ti


@dataclass(frozen=True)
class Peaks:
    """Measured peaks.

    Attributes:
        flops_per_second: of one core, of independent scalar multiply-adds, two flops each [1/s].
        multiply_add_latency: latency of a multiply-add that depends on the previous one [s].
        copy_bytes_per_second: of an array in memory by all cores, bytes read plus bytes written [1/s].
    """

    flops_per_second: float
    multiply_add_latency: float
    copy_bytes_per_second: float


@ti.kernel
def one_chain(count: int, factors: ti.types.ndarray(), result: ti.types.ndarray()):
    """Multiply-adds, each dependent on the previous one.

    Reads factors [9], writes result [8]. No adjoint: a measurement.

    Args:
        count: number of multiply-adds.
    """
    for _ in range(1):
        a, x, y = factors[0], factors[1], factors[8]
        for _i in range(count):
            a = a * x + y
        result[0] = a


@ti.kernel
def eight_chains(count: int, factors: ti.types.ndarray(), result: ti.types.ndarray(), iterations: int):
    """As ``one_chain``, eight chains side by side: as many as two scalar units with a latency of four cycles need.

    A compiler that packs the eight into one vector gains nothing, as that vector depends on itself. Every row of result
    [tasks, 8] is a separate task, which threads share (see ``iterations_per_task``).
    """
    for index in range(result.shape[0] * iterations):
        if index % iterations != 0:
            continue
        task = index // iterations
        y = factors[8]
        a0, a1, a2, a3, a4, a5, a6, a7 = y, y, y, y, y, y, y, y
        x0, x1, x2, x3 = factors[0], factors[1], factors[2], factors[3]
        x4, x5, x6, x7 = factors[4], factors[5], factors[6], factors[7]
        for _i in range(count):
            a0 = a0 * x0 + y
            a1 = a1 * x1 + y
            a2 = a2 * x2 + y
            a3 = a3 * x3 + y
            a4 = a4 * x4 + y
            a5 = a5 * x5 + y
            a6 = a6 * x6 + y
            a7 = a7 * x7 + y
        result[task, 0], result[task, 1], result[task, 2], result[task, 3] = a0, a1, a2, a3
        result[task, 4], result[task, 5], result[task, 6], result[task, 7] = a4, a5, a6, a7


@ti.kernel
def copy_reals(count: int, source: ti.types.ndarray(), target: ti.types.ndarray()):
    """target [count] = source [count] by all threads. No adjoint: a measurement."""
    for i in range(count):
        target[i] = source[i]


def measure(*, quick: bool) -> Peaks:
    """Measure the peaks; one or two seconds, a tenth of that when ``quick``."""
    device = require().device
    count, repeats = (2_000_000, 3) if quick else (20_000_000, 7)
    factors = torch.linspace(0.5, 0.9, 9, device=device)
    result = torch.zeros(8, device=device)
    one_chain_seconds = best_time(lambda: one_chain(count, factors, result), repeats=repeats)
    eight_chains_seconds = best_time(lambda: eight_chains(count, factors, result[None], 1), repeats=repeats)
    source = torch.ones(16_000_000, device=device)
    target = torch.zeros_like(source)
    copy_seconds = best_time(lambda: copy_reals(source.numel(), source, target), repeats=repeats)
    return Peaks(
        flops_per_second=16 * count / eight_chains_seconds,
        multiply_add_latency=one_chain_seconds / count,
        copy_bytes_per_second=2 * source.nbytes / copy_seconds,
    )


def effective_cores(*, quick: bool) -> float:
    """Multiply-adds of all cores over those of one: number of cores that this process effectively had (on the CPU)."""
    count, repeats = (2_000_000, 3) if quick else (60_000_000, 5)
    device, cores = require().device, torch.get_num_threads()
    factors = torch.linspace(0.5, 0.9, 9, device=device)
    tasks = {"one core": 1, "all cores": 8 * cores}

    def run(name: str) -> None:
        eight_chains(count // tasks[name], factors, torch.zeros(tasks[name], 8, device=device), iterations_per_task(tasks[name]))

    best_seconds = best_times({name: lambda name=name: run(name) for name in tasks}, repeats=repeats)
    return best_seconds["one core"] / best_seconds["all cores"]
