#!/usr/bin/env python3
"""Step time of the seed transformer in PyTorch on the CPU: forward + backward + fused Adam.

Embedding, decoder layers as `layer(x, x)` (post-norm, ReLU, batch first), final norm, projection;
cross-entropy against given targets. Prints JSON with the time of every step.

  pytorch_seed_transformer.py                      one process, one thread
  pytorch_seed_transformer.py --ranks 2            DistributedDataParallel, same global batch
  pytorch_seed_transformer.py --ranks 2 --gpipe 4  ScheduleGPipe, two stages, four microbatches
"""

import argparse
import os
import time

import pytorch_common as common


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--threads", type=int, default=1, help="threads of each rank")
    add("--ranks", type=int, default=1)
    add("--gpipe", type=int, default=0, metavar="M",
        help="pipeline over the ranks with M microbatches instead of data parallel")
    add("--steps", type=int, default=5)
    add("--warmup", type=int, default=1)
    add("--dropout", type=float, default=0.1)
    add("--batch", type=int, default=32, help="sequences of the global batch")
    add("--sequence", type=int, default=128)
    add("--vocabulary", type=int, default=10000)
    add("--width", type=int, default=512)
    add("--heads", type=int, default=8)
    add("--layers", type=int, default=8)
    add("--feed-forward", type=int, default=2048)
    add("--compile", action="store_true", help="torch.compile the model (not with --gpipe)")
    add("--default-allocator", action="store_true", help="leave glibc's malloc at its defaults")
    options = parser.parse_args()
    if options.gpipe and (options.ranks < 2 or options.batch % options.gpipe):
        parser.error("--gpipe needs at least 2 ranks and a number that divides the batch")
    if not options.gpipe and options.batch % options.ranks:
        parser.error("--ranks must divide --batch")
    if options.gpipe and options.compile:
        parser.error("--compile cannot be combined with --gpipe")
    return options


def build_model(options, first_layer, last_layer):
    """Layers [first_layer, last_layer), with the embedding before layer 0 and the head behind the
    last; the whole model is [0, layers)."""
    import torch
    import torch.nn as nn

    class ContiguousGradient(torch.autograd.Function):
        """Identity. A decoder layer hands the gradient of its input on transposed in memory, and
        gloo sends contiguous tensors only."""

        @staticmethod
        def forward(context, x):
            return x.view_as(x)

        @staticmethod
        def backward(context, gradient):
            return gradient.contiguous()

    class SeedTransformer(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = (nn.Embedding(options.vocabulary, options.width)
                              if first_layer == 0 else None)
            self.layers = nn.ModuleList(
                nn.TransformerDecoderLayer(options.width, options.heads, options.feed_forward,
                                           options.dropout, batch_first=True)
                for _ in range(first_layer, last_layer))
            last = last_layer == options.layers
            self.norm = nn.LayerNorm(options.width) if last else None
            self.head = nn.Linear(options.width, options.vocabulary) if last else None

        def forward(self, x):
            x = ContiguousGradient.apply(x) if self.embedding is None else self.embedding(x)
            for layer in self.layers:
                x = layer(x, x)
            return x if self.head is None else self.head(self.norm(x))

    return SeedTransformer().train()


def fused_adam(model):
    import torch
    return torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)


def token_loss(logits, targets):
    import torch.nn.functional as F
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def data_parallel_worker(rank, world, options):
    import torch
    from torch.nn.parallel import DistributedDataParallel
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    model = build_model(options, 0, options.layers)
    parameters = sum(p.numel() for p in model.parameters())
    if world > 1:
        model = DistributedDataParallel(model, gradient_as_bucket_view=True)
    optimizer = fused_adam(model)
    forward = torch.compile(model) if options.compile else model
    tokens, targets = local_batch(options, rank, world)
    phases, losses = [], []

    def step():
        begin = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        loss = token_loss(forward(tokens), targets)
        after_forward = time.perf_counter()
        loss.backward()
        after_backward = time.perf_counter()
        optimizer.step()
        phases.append((after_forward - begin, after_backward - after_forward,
                       time.perf_counter() - after_backward))
        losses.append(loss.item())

    timing = common.time_steps(step, options.steps, options.warmup, world)
    best = min(phases[options.warmup:], key=sum)
    return {**timing, "parameters": parameters, "rank0_losses": losses,
            "rank0_best_forward_s": best[0], "rank0_best_backward_s": best[1],
            "rank0_best_adam_s": best[2]}


def local_batch(options, rank, world):
    """The rank's rows of one fixed global batch."""
    import torch
    generator = torch.Generator().manual_seed(2)
    shape = (options.batch, options.sequence)
    tokens = torch.randint(options.vocabulary, shape, generator=generator)
    targets = torch.randint(options.vocabulary, shape, generator=generator)
    return tokens.chunk(world)[rank], targets.chunk(world)[rank]


def gpipe_worker(rank, world, options):
    import torch
    from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    bounds = [options.layers * i // world for i in range(world + 1)]
    model = build_model(options, bounds[rank], bounds[rank + 1])
    parameters = sum(p.numel() for p in model.parameters())
    stage = PipelineStage(model, rank, world, torch.device("cpu"))
    schedule = ScheduleGPipe(stage, n_microbatches=options.gpipe, loss_fn=token_loss)
    optimizer = fused_adam(model)
    tokens, targets = local_batch(options, 0, 1)
    arguments = (tokens,) if rank == 0 else ()
    keywords = {"target": targets} if rank == world - 1 else {}

    def step():
        optimizer.zero_grad(set_to_none=True)
        # The logits of the whole batch are not wanted, only the loss.
        schedule.step(*arguments, **keywords, return_outputs=False)
        optimizer.step()

    timing = common.time_steps(step, options.steps, options.warmup, world)
    return {**timing, "rank0_parameters": parameters}


def main():
    options = parse_arguments()
    common.prepare_environment(options.threads, not options.default_allocator)
    load = os.getloadavg()[0]
    worker = gpipe_worker if options.gpipe else data_parallel_worker
    result = common.run_ranks(options.ranks, worker, options)
    common.print_result("seed_transformer", options, result, load)


if __name__ == "__main__":
    main()
