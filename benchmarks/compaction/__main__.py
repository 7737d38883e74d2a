"""``python -m benchmarks.compaction``: writes and compactions of one bucket, against everybody who can do the same.

*upsert*: a fifth of the rows of a bucket come anew. They are written as a level-0 file, which a lookup compaction
brings up at once, marking each row they replace. *full*: the bucket and such a file are merged into one run. The
contenders take turns, each on a copy of the same table, and the best of the rounds counts: what else runs on a
machine can only add to it.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from benchmarks.compaction.contenders import CONTENDERS, Ground, Outcome
from benchmarks.compaction.report import report, throughput
from benchmarks.machine import describe
from benchmarks.plots import draw_bars
from model_tests.interop.environments import SetupError

RESULTS = Path(__file__).parents[1] / "results"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compaction", description=__doc__)
    parser.add_argument(
        "--scale", type=float, default=0.34, help="of TPC-H lineitem; 6 million rows each (0.34)"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=RESULTS, help="directory of the results")
    options = parser.parse_args()
    about = describe()
    outcomes: list[Outcome] = []
    absent: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="pktable-compaction-") as folder:
        ground = Ground(Path(folder), options.scale)
        for turn in range(options.rounds):
            for name, contender in CONTENDERS.items():
                if name in absent:
                    continue
                try:
                    found = contender(ground)
                except SetupError as missing:
                    absent[name] = str(missing)
                    continue
                outcomes += found
                for one in found:
                    print(f"round {turn + 1}: {one.work}, {name}: {one.seconds:.2f} s", file=sys.stderr)
        result = {
            "command": shlex.join(["python", "-m", "benchmarks.compaction", *sys.argv[1:]]),
            "machine": about,
            "rows": ground.rows,
            "upserts": ground.upserts,
            "ingested_bytes": ground.ingested_bytes,
            "absent": absent,
            "outcomes": [asdict(one) for one in outcomes],
        }
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "compaction.json").write_text(json.dumps(result, indent=1) + "\n")
    draw_bars(throughput(result), "rows per processor second", options.out / "compaction.svg")
    text = report(result)
    (options.out / "compaction.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
