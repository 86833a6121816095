"""Training a small GPT under DistributedDataParallel (examples/char_gpt.py) by gloo and by Penny, in turns, each run a job.

    python char_gpt.py
    python char_gpt.py --ranks 4 --turns 9 --steps 200 --json

Every turn runs all four ways. Of each turn the ratios of the milliseconds a step are taken; medians, quartiles in
brackets.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from turns import Ratio, table

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "char_gpt.py"
WAYS = {
    f"{backend}, {way}": [f"--backend={backend}", *options]
    for backend in ("gloo", "penny")
    for way, options in (("overlap", []), ("no overlap", ["--no-overlap"]))
}


def run(options: list[str], ranks: int, steps: int) -> dict[str, Any]:
    """One job; what it reports."""
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={ranks}"]
    script = [str(EXAMPLE), "--json", f"--steps={steps}", *options]
    done = subprocess.run([*launch, *script], capture_output=True, text=True, timeout=600)
    if done.returncode:
        raise SystemExit(f"{' '.join(script)} on {ranks} ranks failed:\n{done.stderr}")
    report: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return report


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    reports: dict[str, list[dict[str, Any]]] = {way: [] for way in WAYS}
    for turn in range(arguments.turns):
        ways = list(WAYS)
        for way in ways[turn % len(ways) :] + ways[: turn % len(ways)]:
            reports[way].append(run(WAYS[way], arguments.ranks, arguments.steps))
    times = {way: [report["step_ms"] for report in of] for way, of in reports.items()}
    ratios = {
        "gloo/penny, overlap": Ratio.of(times["gloo, overlap"], times["penny, overlap"]),
        "gloo/penny, no overlap": Ratio.of(times["gloo, no overlap"], times["penny, no overlap"]),
        "no overlap/overlap, penny": Ratio.of(times["penny, no overlap"], times["penny, overlap"]),
        "no overlap/overlap, gloo": Ratio.of(times["gloo, no overlap"], times["gloo, overlap"]),
    }
    if arguments.json:
        named = {name: asdict(ratio) for name, ratio in ratios.items()}
        print(json.dumps({"ranks": arguments.ranks, "step_ms": times, "ratios": named}))
        return
    print(
        f"a step of a small GPT, {arguments.ranks} ranks, {arguments.turns} turns of {arguments.steps} steps"
    )
    rows = [
        [
            way,
            f"{statistics.median(times[way]):.1f}",
            f"{min(times[way]):.1f}",
            f"{reports[way][0]['last_loss']:.3f}",
        ]
        for way in WAYS
    ]
    print(table(["way", "ms, median", "ms, least", "loss"], rows))
    print(table(["ratio", "median (quartiles)"], [[name, ratio] for name, ratio in ratios.items()]))


if __name__ == "__main__":
    main()
