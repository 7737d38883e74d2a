"""``python -m model_tests.hudi.dying_task FOLDER``: a write on Spark, in which the process of one task dies.

It dies once, right after it has created its file. Spark starts the task again. Prints one JSON object: what `Outcome`
has.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from pktable import HudiTable
from pktable.store.file_io import LocalFileIO
from pktable_hudi.placing import WriteOptions
from pyspark.sql import SparkSession

ROWS = 40


@dataclass
class Outcome:
    """``died``: whether a process did. ``files``: those of the file slices; ``found``: those that are there."""

    died: bool
    rows: list[int]
    files: list[str]
    found: list[str]
    findings: list[str]


class FatalStore(LocalFileIO):
    """Ends the first process that creates a data file, unless it is that of the driver. ``mark``: says that it did."""

    def __init__(self, mark: Path) -> None:
        self.mark, self.driver = mark, os.getpid()

    def put_if_absent(self, path: str, data: bytes) -> bool:
        put = super().put_if_absent(path, data)
        if put and ".hoodie" not in path and os.getpid() != self.driver:
            try:
                os.close(os.open(self.mark, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                return put
            os.kill(os.getpid(), signal.SIGKILL)
        return put


def main(folder: Path) -> Outcome:
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2, 4]")  # a task may fail three times
    for name, value in (("spark.ui.enabled", "false"), ("spark.sql.shuffle.partitions", "4")):
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    mark, root = folder / "died", folder / "t"
    HudiTable.create(root, "k BIGINT, v BIGINT", key="k")
    table = HudiTable.open(root, spark=session, store=FatalStore(mark))
    table.write_options = WriteOptions(most_bytes=40)  # several file groups
    table.upsert(session.createDataFrame([(i, i) for i in range(ROWS)], "k long, v long"))
    here = HudiTable.open(root)
    rows = here.to_arrow(columns="v")["v"].to_pylist()
    files = here.files()["file"].to_pylist()
    found = [path.name for path in root.glob("*.parquet")]
    findings = [str(one) for one in here.check().findings]
    return Outcome(mark.exists(), sorted(rows), sorted(files), sorted(found), findings)


if __name__ == "__main__":
    print(json.dumps(asdict(main(Path(sys.argv[1])))))
