#!/usr/bin/env python3
"""Step time of the MLP 784-256-10 in PyTorch on the CPU: forward + backward + fused Adam.

Prints JSON: every step's time, the minimum and the median. `--ranks 2` measures
DistributedDataParallel over gloo with the global batch divided over the ranks.
"""

import argparse
import os

import pytorch_common as common


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--threads", type=int, default=1, help="threads of each rank")
    add("--ranks", type=int, default=1)
    add("--batch", type=int, default=64, help="samples of the global batch")
    add("--steps", type=int, default=2000)
    add("--warmup", type=int, default=200)
    add("--compile", action="store_true", help="torch.compile the model")
    add("--default-allocator", action="store_true", help="leave glibc's malloc at its defaults")
    options = parser.parse_args()
    if options.batch % options.ranks:
        parser.error("--ranks must divide --batch")
    return options


def worker(rank, world, options):
    import torch
    import torch.nn as nn
    import torch.nn.functional as F
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))
    if world > 1:
        model = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    forward = torch.compile(model) if options.compile else model
    # The data set is cut into batches before the clock starts: loading is not what is compared.
    rows = options.batch // world
    inputs = torch.randn(64, rows, 784, generator=torch.Generator().manual_seed(2 + rank)).unbind()
    labels = torch.randint(10, (64, rows)).unbind()
    done = 0

    def step():
        nonlocal done
        x, y = inputs[done % 64], labels[done % 64]
        done += 1
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(forward(x), y).backward()
        optimizer.step()

    return common.time_steps(step, options.steps, options.warmup, world)


def main():
    options = parse_arguments()
    common.prepare_environment(options.threads, not options.default_allocator)
    load = os.getloadavg()[0]
    common.print_result("mlp", options, common.run_ranks(options.ranks, worker, options), load)


if __name__ == "__main__":
    main()
