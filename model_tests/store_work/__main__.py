"""``python -m model_tests.store_work [NAME]...``: record again what scripts do on the store, by default all of them."""

from __future__ import annotations

import sys

from model_tests.store_work.play import RECORDS, played
from model_tests.store_work.scripts import SCRIPTS

for name in sys.argv[1:] or SCRIPTS:
    if name not in SCRIPTS:
        sys.exit(f"expected some of {', '.join(SCRIPTS)}, found {name}")
    (RECORDS / f"{name}.txt").write_text(played(SCRIPTS[name]), "utf-8")
    print(f"recorded {name}")
