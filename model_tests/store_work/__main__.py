"""``python -m model_tests.store_work [NAME]...``: record again what scripts do on the store, by default all of them.

``--full``: show what the digests of the records stand for, and record nothing.
"""

from __future__ import annotations

import sys

from model_tests.store_work.play import RECORDS, played
from model_tests.store_work.scripts import SCRIPTS

for name in [one for one in sys.argv[1:] if one != "--full"] or SCRIPTS:
    if name not in SCRIPTS:
        sys.exit(f"expected some of {', '.join(SCRIPTS)}, found {name}")
    play = played(SCRIPTS[name])
    if "--full" in sys.argv:
        print(*(play.full.get(line, line) for line in play.lines), sep="\n")
    else:
        (RECORDS / f"{name}.txt").write_text("\n".join([*play.lines, ""]), "utf-8")
        print(f"recorded {name}")
