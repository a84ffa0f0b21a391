#!/usr/bin/env python3
"""Compares the predicted peak memory of each rank's process with the measured one on this machine.

The plans are those of prediction_accuracy.py: every 1- and 2-rank layout of a few models. Each is run
once, for a few steps, since memory does not depend on timing; other load does no harm.

  tests/bench/memory_accuracy.py --machine machine.json [--parplan build/release/bin/parplan]
      [--work /tmp/parplan-memory] [--models ...] [--layouts ...] [--steps 3] [--bound 0.05]

Without --machine the machine is profiled (quickly) first. Prints a table in megabytes (1e6 bytes), one
line per rank, writes WORK/memory.json, and exits with 1 when a rank is off by more than the bound.
"""

import argparse
import json
import os
import statistics
import sys

from prediction_accuracy import ONE_RANK, TWO_RANKS, Case, Link, add_case_options


def megabytes(x):
    return f"{x / 1e6:8.2f}"


def compare(case, link, parplan, machine, steps):
    """One row per rank; a position holds equally many ranks, in order."""
    case.make(parplan, machine)
    positions = case.simulate(parplan, machine)["positions"]
    out = link.run([parplan, "execute", case.plan, "--steps", str(steps), "--format", "json"])
    ranks = json.loads(out.stdout)["ranks_memory"]
    rows = []
    for measured in ranks:
        forecast = positions[measured["rank"] * len(positions) // len(ranks)]["peak_memory"]
        rows.append({
            "model": case.model,
            "layout": case.layout,
            "rank": measured["rank"],
            "reserved_bytes": forecast["reserved_bytes"],
            "predicted_bytes": forecast["process_bytes"],
            "measured_bytes": measured["peak_process_bytes"],
            "tensors_exact": forecast["tensors_bytes"] == measured["peak_tensor_bytes"],
            "error": forecast["process_bytes"] / measured["peak_process_bytes"] - 1,
        })
    return rows


def show(row):
    reserved, predicted, measured = (row[k + "_bytes"] for k in ("reserved", "predicted", "measured"))
    print(f"{row['model']:17s} {row['layout']:35s} {row['rank']:4d} {megabytes(reserved)} "
          f"{megabytes(predicted - reserved)} {megabytes(predicted)} {megabytes(measured)} "
          f"{megabytes(measured - predicted)} {100 * row['error']:+6.1f} % "
          f"{'exact' if row['tensors_exact'] else 'DIFFER'}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add_case_options(parser)
    parser.add_argument("--machine", help="machine file (default: profile --quick now)")
    parser.add_argument("--work", default="/tmp/parplan-memory")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--bound", type=float, default=0.05)
    options = parser.parse_args()
    os.makedirs(options.work, exist_ok=True)
    parplan = os.path.abspath(options.parplan)
    link = Link("shm")
    machine = options.machine or os.path.join(options.work, "machine.json")
    if not options.machine:
        link.run([parplan, "profile", "--quick", "-o", machine])
    layouts = options.layouts.split(";") if options.layouts else ONE_RANK + TWO_RANKS
    print(f"{'model':17s} {'layout':35s} rank reserved     rest predicted measured      gap    error tensors")
    rows = []
    for model in options.models.split(","):
        for layout in layouts:
            for row in compare(Case(link, model, layout, options.work), link, parplan, machine,
                               options.steps):
                show(row)
                rows.append(row)
    with open(os.path.join(options.work, "memory.json"), "w") as out:
        json.dump(rows, out, indent=1)
    size = sorted(abs(r["error"]) for r in rows)
    print(f"{len(rows)} ranks: median {100 * statistics.median(size):.1f} %, "
          f"p90 {100 * size[int(0.9 * (len(size) - 1))]:.1f} %, worst {100 * size[-1]:.1f} %")
    if size[-1] > options.bound or not all(r["tensors_exact"] for r in rows):
        sys.exit(1)


if __name__ == "__main__":
    main()
