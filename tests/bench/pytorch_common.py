"""Shared by the PyTorch sides of the benchmarks: environment, ranks, timing, output.

Import this module before torch: `prepare_environment` has to act before torch reads its variables.
"""

import json
import os
import statistics
import sys
import tempfile
import time

# Variables that pin a BLAS to an older kernel or cache size. They are meant for other programs on
# the machine and would slow PyTorch down, so a fair comparison drops them.
SLOWING_VARIABLES = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "ATEN_CPU_CAPABILITY",
                     "DNNL_MAX_CPU_ISA", "ONEDNN_MAX_CPU_ISA", "MKL_ENABLE_INSTRUCTIONS",
                     "MKL_DEBUG_CPU_TYPE")

# glibc returns every large block to the kernel on free, so that each step pays for faulting the
# activations in again; keeping them took a step from 14.5 s to 11.8 s and was as good as jemalloc
# or tcmalloc. The dynamic loader reads these, hence the re-execution in `prepare_environment`.
ALLOCATOR_VARIABLES = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 40)}


def prepare_environment(threads, keep_memory=True):
    """Re-executes the script once with the environment PyTorch is fastest in."""
    wanted = {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads),
              "GLOO_SOCKET_IFNAME": "lo"}
    if keep_memory:
        wanted.update(ALLOCATOR_VARIABLES)
    slowed = [name for name in SLOWING_VARIABLES if name in os.environ]
    if not slowed and all(os.environ.get(k) == v for k, v in wanted.items()):
        return
    environment = {k: v for k, v in os.environ.items() if k not in slowed}
    environment.update(wanted)
    os.execve(sys.executable, [sys.executable, *sys.argv], environment)


def run_ranks(world, worker, options):
    """Calls worker(rank, world, options) in `world` processes joined over gloo.

    Returns what rank 0's worker returned. A rank that fails ends the run with its traceback.
    """
    if world == 1:
        return worker(0, 1, options)
    import torch.multiprocessing as mp
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(_rank_main, args=(world, worker, options, folder), nprocs=world, join=True)
        with open(os.path.join(folder, "result.json"), encoding="utf-8") as file:
            return json.load(file)


def _rank_main(rank, world, worker, options, folder):
    import torch.distributed as dist
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank,
                            world_size=world)
    result = worker(rank, world, options)
    if rank == 0:
        with open(os.path.join(folder, "result.json"), "w", encoding="utf-8") as file:
            json.dump(result, file)
    dist.barrier()
    dist.destroy_process_group()


def time_steps(step, count, warmup, world):
    """Wall seconds of each of `count` calls of `step`, the slowest rank's where there are several,
    and the processor seconds this rank's process (all its threads) spent on it.

    The ranks start a step together (barrier outside the clock). On a machine that others use too,
    the processor time is the steadier figure; it equals the wall time of a quiet machine only for
    one rank with one thread.
    """
    import torch
    import torch.distributed as dist
    for _ in range(warmup):
        step()
    seconds, processor = [], []
    for _ in range(count):
        if world > 1:
            dist.barrier()
        begin, processor_begin = time.perf_counter(), time.process_time()
        step()
        seconds.append(time.perf_counter() - begin)
        processor.append(time.process_time() - processor_begin)
    if world > 1:
        slowest = torch.tensor(seconds, dtype=torch.float64)
        dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
        seconds = slowest.tolist()
    return {"step_s": seconds, "minimum_s": min(seconds), "median_s": statistics.median(seconds),
            "rank0_minimum_processor_s": min(processor),
            "rank0_median_processor_s": statistics.median(processor)}


def cpu_name():
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return "unknown"


def print_result(benchmark, options, result, load_before):
    """One JSON object on standard output; units are in the key names."""
    import torch
    document = {"benchmark": benchmark, "torch": torch.__version__,
                "cpu": cpu_name(), "cpu_capability": torch.backends.cpu.get_cpu_capability(),
                "cores": os.cpu_count(), "options": vars(options),
                "load_average_before": load_before, "load_average_after": os.getloadavg()[0]}
    document.update(result)
    body = [f" {json.dumps(key)}: {json.dumps(value)}" for key, value in document.items()]
    print("{\n" + ",\n".join(body) + "\n}")
