#!/usr/bin/env python3
"""Writes the reference fixtures, or compares newly made ones with those in the folder (--check)."""

import argparse
import json
import math
import pathlib
import platform
import sys

import numpy
import torch
import transformers

import distributed
import keyed
import training

# What PyTorch's own parallel runs and its single process may differ by in float64. Tensors whose
# gradient is zero by nature hold rounding noise only and are compared in absolute terms.
AGREEMENT = 1e-11
NOISE = 1e-13
# What a regenerated fixture may differ by from the committed one: another processor or PyTorch
# version sums in another order.
REPRODUCTION_FLOAT64 = 1e-9
REPRODUCTION_FLOAT32 = 1e-4

DISTRIBUTED = {"seed-mlp": ("ddp",), "seed-transformer": ("ddp", "gpipe")}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--folder", type=pathlib.Path,
                        default=pathlib.Path(__file__).resolve().parent / "fixtures")
    options = parser.parse_args()
    torch.set_num_threads(1)
    options.folder.mkdir(exist_ok=True)
    failed = False
    for case in training.cases():
        fixture = make_fixture(case)
        path = options.folder / f"{case.name}.json"
        if not options.check:
            path.write_text(render(fixture) + "\n", encoding="utf-8")
            print(f"{path.name}: {path.stat().st_size} bytes")
            continue
        gaps = (compare(json.loads(path.read_text(encoding="utf-8")), fixture) if path.exists()
                else ["no such file"])
        for gap in gaps:
            print(f"{path.name}: {gap}")
        failed = failed or bool(gaps)
        print(f"{path.name}: {'differs' if gaps else 'reproduced'}")
    sys.exit(1 if failed else 0)


def make_fixture(case):
    single = training.train(case, torch.float64)
    single32 = training.train(case, torch.float32)
    if case.build.__name__ == "Llama":
        check_llama_as_published(case, single32)
    zero = [name for name, g in single.gradients.items() if float(g.norm()) < NOISE]
    fixture = {
        "format": "parplan/reference-fixture", "version": 1, "case": case.name,
        "made_with": {"torch": torch.__version__, "numpy": numpy.__version__,
                      "transformers": transformers.__version__,
                      "python": platform.python_version()},
        "seed": case.seed, "config": case.config,
        "training": {"optimizer": case.optimizer_name(),
                     "learning_rate": training.LEARNING_RATE, "beta1": 0.9, "beta2": 0.999,
                     "epsilon": 1e-8, "weight_decay": case.weight_decay,
                     **({"max_gradient_norm": case.max_gradient_norm}
                        if case.max_gradient_norm is not None else {}),
                     "steps": training.STEPS, "batch": case.batch, "loss": case.loss},
        "initialisation": {"weight_std": keyed.WEIGHT_STD, "bias_range": keyed.BIAS_RANGE,
                           "norm_range": keyed.NORM_RANGE},
        "data": [describe_stream(case, s) for s in (*case.streams, case.target)],
        "shapes": {name: list(t.shape) for name, t in single.initial.items()},
        "zero_gradients": zero,
        "initial_parameters": training.digest_all(case.seed, single.initial),
        "float64": single.digests(case.seed),
        "float32": {"losses": single32.losses,
                    "distance_from_float64": training.distance(single32, single)},
    }
    for mode in DISTRIBUTED.get(case.name, ()):
        run = distributed.run(case.name, mode)
        gap = agreement_gap(run, single, zero)
        assert gap < AGREEMENT, f"{case.name}: {mode} is {gap} from the single process"
        fixture.setdefault("distributed_float64", {})[mode] = {
            "ranks": distributed.RANKS,
            **({"microbatches": distributed.MICROBATCHES} if mode == "gpipe" else {}),
            "gap_to_single_process": gap, **run.digests(case.seed)}
    return fixture


def agreement_gap(run, single, zero):
    """Largest relative difference of losses and tensors; asserts that zero gradients stay so."""
    assert run.gradients.keys() == single.gradients.keys()
    assert all(float(run.gradients[name].norm()) < NOISE for name in zero)
    gaps = training.distance(run, single)
    return max([gaps["losses"], *gaps[f"parameters_step_{training.STEPS}"].values()]
               + [g for name, g in gaps["gradients_step_1"].items() if name not in zero])


def check_llama_as_published(case, single32):
    """transformers' own Llama, float32 parts included, tells the same within float32 rounding."""
    published = training.train(case, torch.float32, exact=False)
    gaps = training.distance(published, single32)
    worst = max(gaps["losses"], *gaps["gradients_step_1"].values())
    assert worst < 1e-5, f"{case.name}: transformers' own layers differ by {worst}"


def describe_stream(case, stream):
    name, kind, shape = stream
    values = training.draw(case.seed, stream, case.batch, 0, torch.float64).flatten()[:8].tolist()
    return {"key": name, "kind": "normal" if kind == "normal" else "integer",
            **({} if kind == "normal" else {"bound": kind}), "shape": [case.batch, *shape],
            "first_of_step_1": values}


def render(value, depth=0):
    """JSON with one digest or list a line, so that a change shows up as a readable diff."""
    flat = not isinstance(value, dict) or "l2" in value or "key" in value
    if isinstance(value, list) and value and isinstance(value[0], dict):
        flat = False
    if flat or not value:
        return json.dumps(value, allow_nan=False)
    pad = " " * (depth + 1)
    if isinstance(value, list):
        body = [pad + render(v, depth + 1) for v in value]
        return "[\n" + ",\n".join(body) + "\n" + " " * depth + "]"
    body = [f"{pad}{json.dumps(k)}: {render(v, depth + 1)}" for k, v in value.items()]
    return "{\n" + ",\n".join(body) + "\n" + " " * depth + "}"


def compare(old, new):
    """Differences in words: configuration, losses, norms and elements."""
    found = [f"{key} changed" for key in old
             if key in ("seed", "config", "training", "initialisation", "shapes", "zero_gradients")
             and old[key] != new.get(key)]
    if old.keys() != new.keys():
        found.append(f"keys changed: {sorted(old.keys() ^ new.keys())}")
    found += compare_digests("initial_parameters", old["initial_parameters"],
                             new["initial_parameters"], old)
    found += compare_run("float64", old["float64"], new["float64"], old)
    for mode, run in old.get("distributed_float64", {}).items():
        found += compare_run(mode, run, new["distributed_float64"][mode], old)
    found += compare_losses("float32", old["float32"], new["float32"], REPRODUCTION_FLOAT32)
    return found


def compare_digests(label, old, new, fixture, skip=()):
    found = []
    for name, digest in old.items():
        gap = 0.0 if name in skip else digest_gap(digest, new[name], fixture["shapes"][name])
        if gap > REPRODUCTION_FLOAT64:
            found.append(f"{label} of {name} differ by {gap:.2e}")
    return found


def compare_losses(label, old, new, tolerance):
    worst = max(abs(a - b) / abs(a) for a, b in zip(old["losses"], new["losses"], strict=True))
    return [f"{label}: losses differ by {worst:.2e}"] if worst > tolerance else []


def compare_run(label, old, new, fixture):
    found = compare_losses(label, old, new, REPRODUCTION_FLOAT64)
    for part in ("gradients_step_1", "parameters_step_1", f"parameters_step_{training.STEPS}"):
        skip = fixture["zero_gradients"] if part == "gradients_step_1" else ()
        found += compare_digests(f"{label}: {part}", old[part], new[part], fixture, skip)
    return found


def digest_gap(old, new, shape):
    """Largest difference, relative to what the norm says an element or a sum can be."""
    norm, count = old["l2"], math.prod(shape)
    gaps = [abs(old["l2"] - new["l2"]) / norm,
            abs(old["sum"] - new["sum"]) / (norm * math.sqrt(count))]
    for (index, a), (other_index, b) in zip(old["elements"], new["elements"], strict=True):
        gaps.append(abs(a - b) / norm if index == other_index else math.inf)
    return max(gaps)


if __name__ == "__main__":
    main()
