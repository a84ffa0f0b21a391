"""The same training by PyTorch's own data parallel and pipeline, two processes over gloo."""

import os
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

import training

RANKS = 2
MICROBATCHES = 4


def run(case_name, mode):
    """Trains the named case in float64; mode is "ddp" or "gpipe". Returns a training.Run."""
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(_rank_main, args=(case_name, mode, folder), nprocs=RANKS, join=True)
        parts = [torch.load(os.path.join(folder, f"rank{rank}.pt"), weights_only=False)
                 for rank in range(RANKS)]
    return parts[0] if mode == "ddp" else _join_stages(parts)


def _rank_main(rank, case_name, mode, folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank,
                            world_size=RANKS)
    case = next(c for c in training.cases() if c.name == case_name)
    result = {"ddp": _train_ddp, "gpipe": _train_gpipe}[mode](case, rank)
    torch.save(result, os.path.join(folder, f"rank{rank}.pt"))
    dist.barrier()
    dist.destroy_process_group()


def _train_ddp(case, rank):
    """Rank r takes rows [r B/2, (r+1) B/2) of the global batch; losses are the mean over ranks."""
    model = case.model(torch.float64)
    wrapped = torch.nn.parallel.DistributedDataParallel(model)

    def forward_backward(step):
        inputs, targets = case.data(step, torch.float64)
        loss = case.loss_value(wrapped(*(x.chunk(RANKS)[rank] for x in inputs)),
                               targets.chunk(RANKS)[rank])
        loss.backward()
        mean = loss.detach().clone()
        dist.all_reduce(mean, op=dist.ReduceOp.SUM)
        return mean.item() / RANKS

    return training.record_training(model.slots(), case.optimizer(model), forward_backward)


def _train_gpipe(case, rank):
    """Stage r holds an equal share of the layers; losses are known to the last stage only."""
    from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
    layers = case.config["layers"]
    model = case.model(torch.float64, first=layers * rank // RANKS,
                       last=layers * (rank + 1) // RANKS)
    stage = PipelineStage(model, rank, RANKS, torch.device("cpu"))
    schedule = ScheduleGPipe(stage, n_microbatches=MICROBATCHES, loss_fn=case.loss_value)

    def forward_backward(step):
        inputs, targets = case.data(step, torch.float64)
        if rank == 0:
            schedule.step(*inputs)
            return None
        losses = []
        schedule.step(target=targets, losses=losses)
        return torch.stack([loss.detach() for loss in losses]).mean().item()

    return training.record_training(model.slots(), case.optimizer(model), forward_backward)


def _join_stages(parts):
    joined = training.Run()
    joined.losses = parts[-1].losses
    for field in ("initial", "gradients", "after_first", "after_last"):
        for part in parts:
            getattr(joined, field).update(getattr(part, field))
    return joined
