"""Decoding with tensor parallelism (examples/tp_llama.py) by gloo and by Penny, in turns, each run a job.

    python llama.py
    python llama.py --ranks 4 --turns 3 --json

Rows: the model as transformers divides it, the same divided by hand, and by hand with the layers' outputs in
memory that the other ranks can reach. Of each turn's two runs the ratio of tokens a second is taken; medians,
quartiles in brackets.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from turns import Ratio, table

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "tp_llama.py"
WAYS = {"plan": [], "by hand": ["--hand-written"], "by hand, heap": ["--hand-written", "--heap"]}


@dataclass(frozen=True)
class Row:
    way: str
    gloo_tokens_per_second: float
    penny_tokens_per_second: float
    penny_to_gloo: Ratio
    gloo_share: float  # of the time, in all_reduce
    penny_share: float
    same_ids: bool  # in all runs of both


def run(backend: str, options: list[str], ranks: int, tokens: int) -> dict[str, Any]:
    """One job; what it reports."""
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={ranks}"]
    script = [str(EXAMPLE), "--json", f"--tokens={tokens}", f"--backend={backend}", *options]
    done = subprocess.run([*launch, *script], capture_output=True, text=True, timeout=600)
    if done.returncode:
        raise SystemExit(f"{' '.join(script)} on {ranks} ranks failed:\n{done.stderr}")
    report: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return report


def measure(way: str, ranks: int, turns: int, tokens: int) -> Row:
    options = {"penny": WAYS[way], "gloo": [option for option in WAYS[way] if option != "--heap"]}
    reports: dict[str, list[dict[str, Any]]] = {"gloo": [], "penny": []}
    for _ in range(turns):
        for backend, of in reports.items():
            of.append(run(backend, options[backend], ranks, tokens))
    gloo, penny = reports["gloo"], reports["penny"]
    speeds = {backend: [report["tokens_per_second"] for report in of] for backend, of in reports.items()}
    return Row(
        way=way,
        gloo_tokens_per_second=statistics.median(speeds["gloo"]),
        penny_tokens_per_second=statistics.median(speeds["penny"]),
        penny_to_gloo=Ratio.of(speeds["penny"], speeds["gloo"]),
        gloo_share=statistics.median(r["all_reduce_share"] for r in gloo),
        penny_share=statistics.median(r["all_reduce_share"] for r in penny),
        same_ids=all(r["ids"] == gloo[0]["ids"] for r in gloo + penny),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--ways", nargs="+", choices=list(WAYS), default=list(WAYS), help="which rows")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    rows = [measure(way, arguments.ranks, arguments.turns, arguments.tokens) for way in arguments.ways]
    if arguments.json:
        print(json.dumps({"ranks": arguments.ranks, "rows": [asdict(row) for row in rows]}))
        return
    print(f"decoding {arguments.tokens} tokens, {arguments.ranks} ranks, {arguments.turns} turns, tokens/s")
    head = ["way", "gloo", "penny", "penny/gloo", "all_reduce gloo", "all_reduce penny", "ids"]
    cells = [
        [
            row.way,
            f"{row.gloo_tokens_per_second:.1f}",
            f"{row.penny_tokens_per_second:.1f}",
            row.penny_to_gloo,
            f"{100 * row.gloo_share:.0f} %",
            f"{100 * row.penny_share:.0f} %",
            "the same" if row.same_ids else "DIFFERENT",
        ]
        for row in rows
    ]
    print(table(head, cells))


if __name__ == "__main__":
    main()
