#!/usr/bin/env python3
"""Step times of parplan's executor beside PyTorch's on this machine, in one run.

Each case is run by both in turn, several rounds, so that what else the machine does meets both alike. Same
model, batch, dtype (float32), threads (one per rank), dropout and optimizer; PyTorch with fused Adam and
without variables that slow its BLAS. The ratio is parplan's least step time over PyTorch's.

  tests/bench/executor_speed.py --python ENVIRONMENT/bin/python [--parplan build/release/bin/parplan]
      [--cases single,dp2,gpipe4,mlp,mlp128,mlp-dp2] [--rounds 3] [--output speed.json]

`--python` is the interpreter of an environment with PyTorch; tests/reference/make_fixtures.sh makes one.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))

# name: (model, global batch, layout, plan flags, steps, PyTorch script, its flags)
TRANSFORMER = ["--dropout", "0.1", "--samples", "256"]
CASES = {
    "single": ("seed-transformer", 32, "single", TRANSFORMER, 3,
               "pytorch_seed_transformer.py", ["--steps", "2"]),
    "dp2": ("seed-transformer", 32, "dp=2", TRANSFORMER, 3,
            "pytorch_seed_transformer.py", ["--steps", "2", "--ranks", "2"]),
    "gpipe4": ("seed-transformer", 32, "pp=2,schedule=gpipe,microbatches=4", TRANSFORMER, 3,
               "pytorch_seed_transformer.py", ["--steps", "2", "--ranks", "2", "--gpipe", "4"]),
    "mlp": ("seed-mlp", 64, "single", [], 1500, "pytorch_mlp.py", ["--batch", "64"]),
    "mlp128": ("seed-mlp", 128, "single", [], 1500, "pytorch_mlp.py", ["--batch", "128"]),
    "mlp-dp2": ("seed-mlp", 128, "dp=2", [], 1500, "pytorch_mlp.py", ["--batch", "128", "--ranks", "2"]),
}


def run(command, environment=None):
    result = subprocess.run(command, capture_output=True, text=True, env=environment)
    if result.returncode != 0:
        sys.exit(f"{' '.join(command)}\nfailed with {result.returncode}:\n{result.stderr}")
    return json.loads(result.stdout)


def ours(parplan, plan, steps):
    """Step times without the first, which makes the kernels."""
    environment = dict(os.environ, OMP_NUM_THREADS="1")
    out = run([parplan, "execute", plan, "--steps", str(steps), "--format", "json"], environment)
    return out["step_times_s"][1:]


def make_plan(parplan, name, folder):
    model, batch, layout, flags, *_ = CASES[name]
    plan = os.path.join(folder, name + ".json")
    result = subprocess.run([parplan, "plan", "--model", model, "--cluster", "dgx-h100", "--global-batch",
                             str(batch), "--layout", layout, "-o", plan] + flags,
                            capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(result.stderr)
    return plan


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--parplan", default="build/release/bin/parplan")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--output")
    options = parser.parse_args()
    parplan = os.path.abspath(options.parplan)
    cases = options.cases.split(",")
    times = {name: {"parplan": [], "pytorch": []} for name in cases}
    with tempfile.TemporaryDirectory() as folder:
        plans = {name: make_plan(parplan, name, folder) for name in cases}
        for _ in range(options.rounds):
            for name in cases:
                steps, script, flags = CASES[name][4:]
                times[name]["parplan"] += ours(parplan, plans[name], steps)
                times[name]["pytorch"] += run([options.python, os.path.join(HERE, script)] + flags)["step_s"]
    print(f"{'case':10s} {'':8s} {'least':>12s} {'median':>12s}  parplan / PyTorch (least, median)")
    report = {}
    for name in cases:
        least = {who: min(t) for who, t in times[name].items()}
        median = {who: statistics.median(t) for who, t in times[name].items()}
        for who in ("pytorch", "parplan"):
            line = f"{name:10s} {who:8s} {1e3 * least[who]:9.3f} ms {1e3 * median[who]:9.3f} ms"
            if who == "parplan":
                line += (f"  {least['parplan'] / least['pytorch']:.2f}, "
                         f"{median['parplan'] / median['pytorch']:.2f}")
            print(line)
        report[name] = {"least_s": least, "median_s": median}
    if options.output:
        with open(options.output, "w") as out:
            json.dump(report, out, indent=1)


if __name__ == "__main__":
    main()
