"""The public workflows do what they are for: CI runs ``.ci/run``, Docs `make docs`, and every night `make deep` runs.

Each check is a function of a workflow's text that returns what is wrong with it. It runs on the workflows of this
repository, where it must find nothing, and on copies with one planted fault, where it must find that.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from model_tests.histories.failures import DIRECTORY
from model_tests.histories.profiles import PROFILES
from model_tests.verify.suite import PROFILE_NAMES

ROOT = Path(__file__).parents[2]
WORKFLOWS = ROOT / ".github" / "workflows"
CI = (WORKFLOWS / "ci.yml").read_text("utf-8")
NIGHTLY = (WORKFLOWS / "nightly.yml").read_text("utf-8")
DOCS = (WORKFLOWS / "docs.yml").read_text("utf-8")
JAVA = 17


def section(text: str, name: str) -> str:
    """Return the lines indented below the key ``name``, empty if there is no such key."""
    found = re.search(rf"^( *)(?:- )?{re.escape(name)}:[^\n]*\n((?:\1 +[^\n]*\n|\s*\n)*)", text, re.M)
    return found[2] if found else ""


def steps(text: str) -> list[str]:
    """Return the steps of a workflow's only job, comments left out."""
    lines = re.sub(r"\s+#.*", "", section(text, "steps"))
    return [part for part in re.split(r"^      - ", lines, flags=re.M) if part.strip()]


def commands(text: str) -> list[str]:
    """Return what the steps run, in order."""
    found = [re.search(r"^(?:        )?run: (.*)$", step, re.M) for step in steps(text)]
    return [one[1] for one in found if one]


def action(text: str, name: str) -> str:
    """Return the only step that uses an action, empty if there is none."""
    return next((step for step in steps(text) if f"uses: actions/{name}@" in step), "")


def value(text: str, key: str) -> str:
    """Return the value of a key on a line of its own, without quotes; empty if there is none."""
    found = re.search(rf"^\s*{re.escape(key)}: *\"?([^\"\n]*?)\"?$", text, re.M)
    return found[1] if found else ""


def set_up_wrongly(text: str) -> list[str]:
    """Return what the tools that every job needs are missing."""
    wrong = []
    if value(action(text, "checkout"), "fetch-depth") != "0":
        wrong.append("the history of the repository is cut off")
    if not re.fullmatch(r"3\.1\d", value(action(text, "setup-python"), "python-version")):
        wrong.append("no Python")
    if not (java := value(action(text, "setup-java"), "java-version")).isdigit() or int(java) < JAVA:
        wrong.append("no Java")
    return wrong


def not_continuous(text: str) -> list[str]:
    """Return why a workflow does not run ``.ci/run`` on each push and pull request."""
    triggers = {line.strip() for line in section(text, "on").splitlines() if line.strip()}
    wrong = [] if triggers == {"push:", "pull_request:"} else [f"runs on {sorted(triggers)}"]
    return wrong if commands(text) == [".ci/run"] else [*wrong, f"runs {commands(text)}"]


def no_site(text: str) -> list[str]:
    """Return why a workflow does not build the site on each push and pull request, and keep it."""
    triggers = {line.strip() for line in section(text, "on").splitlines() if line.strip()}
    wrong = [] if triggers == {"push:", "pull_request:"} else [f"runs on {sorted(triggers)}"]
    if commands(text) != ["make docs"]:
        wrong.append(f"runs {commands(text)}")
    upload = action(text, "upload-artifact")
    if value(upload, "path") != BUILT or value(upload, "if-no-files-found") != "error":
        wrong.append("the site is not kept")
    return wrong


def not_deep(text: str) -> list[str]:
    """Return why a workflow does not check everything every night and keep what failed."""
    wrong = []
    if not re.fullmatch(r"\d+ \d+ \* \* \*", value(section(text, "schedule"), "- cron")):
        wrong.append("not every night")
    if commands(text) != ["make deep MINUTES=60"]:
        wrong.append(f"runs {commands(text)}")
    upload = action(text, "upload-artifact")
    directory = value(section(text, "env"), DIRECTORY)
    if not directory or value(upload, "path") != directory:
        wrong.append("the failing histories are not uploaded")
    if "failure()" not in value(upload, "if"):
        wrong.append("nothing is uploaded after a failure")
    return wrong


def report_is_lost(text: str) -> list[str]:
    """Return why the report of `make verify` is not kept, whether it passes or fails."""
    upload = action(text, "upload-artifact")
    folder, kept = value(section(text, "env"), "REPORT"), value(upload, "path")
    wrong = [] if kept and f"{folder}/".startswith(f"{kept}/") else ["the report is not uploaded"]
    always = value(upload, "if")
    return (
        wrong
        if "always()" in always or "success()" in always
        else [*wrong, "it is uploaded after failures only"]
    )


Check = Callable[[str], list[str]]

BUILT = "build/site"
"""Where `make docs` puts the site."""

FAULTS: tuple[tuple[Check, str, Mapping[str, str]], ...] = (
    (set_up_wrongly, CI, {"fetch-depth: 0": "fetch-depth: 1"}),
    (set_up_wrongly, CI, {'"3.13"': '"2.7"'}),
    (set_up_wrongly, CI, {'java-version: "17"': 'java-version: "11"'}),
    (set_up_wrongly, NIGHTLY, {"setup-java": "setup-node"}),
    (not_continuous, CI, {"  pull_request:\n": ""}),
    (not_continuous, CI, {"run: .ci/run": "run: make test"}),
    (not_continuous, CI, {"run: .ci/run": "run: .ci/run || true"}),
    (not_continuous, CI, {"- run: .ci/run": "# - run: .ci/run"}),
    (no_site, DOCS, {"make docs": "make lint"}),
    (no_site, DOCS, {"path: build/site": "path: build"}),
    (no_site, DOCS, {"          if-no-files-found: error\n": ""}),
    (no_site, DOCS, {"  pull_request:\n": ""}),
    (not_deep, NIGHTLY, {"17 2 * * *": "17 2 * * 1"}),
    (not_deep, NIGHTLY, {"make deep": "make test"}),
    (not_deep, NIGHTLY, {"      PKTABLE_FAILURES": "      FAILURES"}),
    (not_deep, NIGHTLY, {"path: failures": "path: other"}),
    (not_deep, NIGHTLY, {"if: success() || failure() || cancelled()": "if: success()"}),
    (report_is_lost, CI, {"REPORT: verify-report": "REPORT: other"}),
    (report_is_lost, CI, {"if: always()": "if: failure()"}),
    (report_is_lost, NIGHTLY, {"      REPORT": "      REPORTS"}),
    (not_deep, NIGHTLY, {"upload-artifact": "download-artifact", "if: ": "if: failure() #"}),
)


@pytest.mark.parametrize(
    ("check", "text"),
    [
        *((check, CI) for check in (set_up_wrongly, not_continuous, report_is_lost)),
        (no_site, DOCS),
        *((check, NIGHTLY) for check in (set_up_wrongly, not_deep, report_is_lost)),
    ],
)
def test_no_workflow_is(check: Check, text: str) -> None:
    assert check(text) == []


@pytest.mark.parametrize(("check", "text", "changes"), FAULTS)
def test_a_planted_fault_is_found(check: Check, text: str, changes: Mapping[str, str]) -> None:
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    assert check(text) != []


def test_ci_can_be_run() -> None:
    assert os.access(ROOT / ".ci" / "run", os.X_OK)


def test_the_deep_profile_has_fresh_seeds_on_every_backend() -> None:
    assert "deep" in PROFILE_NAMES
    assert {backend: PROFILES[backend, "deep"].seed for backend, _ in PROFILES} == dict.fromkeys(
        ("model", "local", "spark")
    )
