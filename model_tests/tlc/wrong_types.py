"""Wrong constants and wrong values of variables, each of which TLC must refuse.

A wrong constant is put into a model of models.json, and an ASSUME of its module must be false. A wrong value is put
into each variable, and TypeOK must not hold any more. The result depends on the modules only, so ``make tla`` runs
it, and the tests compare what the repository has on record.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from model_tests.tlc.checker import Code, Printed, messages_in, outcome
from model_tests.tlc.models import FOLDER, load
from model_tests.tlc.store_traces import model_of as store_model_of
from model_tests.tlc.traces import Trace, model_of

Found: TypeAlias = dict[str, Any]
"""A result of TLC, of plain JSON values."""

MODELS: Final = {model.name: model for model in load()}
MODULES: Final = {path.stem: path.read_text("utf-8") for path in sorted(FOLDER.glob("*.tla"))}


@dataclass(frozen=True)
class Wrong:
    """A model with something wrong. ``read`` gives what TLC finds, ``problem`` compares that with what it must find."""

    files: Mapping[str, str]
    flags: tuple[str, ...]
    read: Callable[[str], Found]
    problem: Callable[[Found], str | None]


def declared(module: str, keyword: str) -> list[str]:
    """Return the names that ``module`` declares as VARIABLES or CONSTANTS."""
    found = re.search(rf"^{keyword}S?\b(.*?)(?=^\S|^$)", MODULES[module], re.M | re.S)
    if found is None:
        return []
    return re.findall(r"\w+", re.sub(r"\\\*.*", "", found[1]))


WRONG_CONSTANTS: Final[dict[str, dict[str, Any]]] = {
    "levels": {"Batches": ["+1", ""], "MaxLevel": 0, "CommitLimit": "0 - 1"},
    "two writers": {
        "Batches": '<<<<[key |-> 1, kind |-> "-U", row |-> 1]>>>>',
        "Writers": 2,
        "Compactors": "Nat",
        "WriteLimit": "0 - 1",
        "CompactionLimit": "0 - 1",
        "Crashes": 1,
        "Vectors": 1,
        "MaxLevel": 0,
        "Trigger": 0,
    },
    "commit, two buckets": {
        "Batches": "<<<<>>>>",
        "Writers": "{}",
        "Compactors": 1,
        "WriteLimit": "0 - 1",
        "CompactionLimit": "0 - 1",
        "Crashes": 1,
        "BucketCount": 3,
        "PutIfAbsent": 1,
        "Lock": 1,
        "Expiry": 1,
        "TagLimit": "0 - 1",
    },
    "commit, rollbacks": {"RollbackLimit": "0 - 1"},
    "append, two deleters": {
        "Deleters": 1,
        "Updaters": 1,
        "Compactors": 1,
        "FileCount": 0,
        "AppendLimit": "0 - 1",
        "Buckets": 1,
        "Vectors": 1,
        "CommitLimit": "0 - 1",
    },
    "many deleted rows": {"DeletedPercent": 101},
    "log writers": {"Writers": 1, "Planners": 1, "TimeLimit": "0 - 1", "CrashLimit": "0 - 1"},
    "log clean": {"InstantLimit": "0 - 1", "CleanLimit": "0 - 1"},
    "log archive": {"Writers": "{}", "Enders": 1},
    "bucket assignment": {"Writers": "Nat", "Keys": "Nat", "Target": 0, "CommitLimit": "0 - 1"},
    "moving keys": {
        "Writers": "Nat",
        "Compactors": "Nat",
        "Keys": "Nat",
        "Partitions": "Nat",
        "CommitLimit": "0 - 1",
    },
    "fence numbers": {"Putters": "Nat", "Askers": "Nat", "Kept": 0, "AttemptLimit": "0 - 1"},
    "retention, consumers": {
        "Expirers": 1,
        "Tags": 1,
        "Branches": 1,
        "Consumers": 1,
        "CommitLimit": "0 - 1",
        "CopiesKept": "0 - 1",
        "CrashLimit": "0 - 1",
    },
    "fast-forward, removal": {
        "Forwards": 1,
        "Removers": 1,
        "Expirers": 1,
        "Cleaners": 1,
        "CommitLimit": "0 - 1",
        "GenerationLimit": "0 - 1",
        "CrashLimit": "0 - 1",
    },
    "log chain": {
        "CliqueFiles": "0 - 1",
        "LogLimit": "0 - 1",
        "PlansAfter": 1,
        "CompletesAfter": 1,
        "LossLimit": "0 - 1",
    },
    "store, reads": {
        "Expirers": 1,
        "Rollers": 1,
        "Readers": 1,
        "AnswersLost": 1,
    },
}

# A value of another type for each variable, in a state reached by one step from the first one.
EMPTY_BUCKET: Final = "[live |-> {}, vectors |-> {}, index |-> 0, known |-> 0, commits |-> 0]"
FILE: Final = '[records |-> <<[key |-> 1, seq |-> 0, kind |-> "+I", row |-> 1]>>, born |-> 0]'
WRONG_VALUES: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "Table": {
        "snapshot": ("-1",),
        "rows": ("[key \\in {1} |-> wrong]",),
        "absorbed": ("[key \\in {1} |-> wrong]",),
        "waiting": ('<<[key \\in {1} |-> [kind |-> "-U", row |-> 1]]>>',),
    },
    "Levels": {
        "snapshot": ("-1",),
        "runs": (
            "<<[level |-> MaxLevel + 1, records |-> {}]>>",
            '<<[level |-> 0, records |-> {[key |-> 1, seq |-> -1, kind |-> "+I", row |-> 1]}]>>',
        ),
    },
    "DeletionVectors": {
        "files": (f"<<[{FILE} EXCEPT !.born = -1]>>", f"<<[{FILE} EXCEPT !.records[1].seq = -1]>>"),
        "live": ("{<<1, MaxLevel + 1>>}", "{<<-1, 0>>}"),
        "vectors": ("{<<1, 0>>}", "{<<-1, 1>>}"),
        "snapshot": ("-1",),
        "pending": (
            "[job \\in {} |-> Idle]",
            '[job \\in Jobs |-> [kind |-> "write"]]',
            '[job \\in Jobs |-> [kind |-> "write", changes |-> <<>>, first |-> -1, plan |-> Idle]]',
        ),
    },
    "Refinement": {
        "seen": (
            "[runs |-> <<>>]",
            "[seen EXCEPT !.runs = <<[level |-> -1, records |-> {}]>>]",
            "[seen EXCEPT !.rows = [key \\in {1} |-> wrong]]",
        )
    },
    "Traces": {"trace": ("0",), "at": ("0",)},
    "StoreTraces": {"trace": ("0",), "at": ("0",)},
    "Commit": {
        "files": ("[b \\in {} |-> <<>>]", f"[b \\in BucketIds |-> <<[{FILE} EXCEPT !.born = -1]>>]"),
        "snapshots": ("[id \\in {0} |-> Empty]", "[id \\in {1} |-> [Empty EXCEPT !.parts[0].index = -1]]"),
        "tags": ("[id \\in {1} |-> [Empty EXCEPT !.writes = -1]]",),
        "stored": ('{<<0, "manifest", 1>>}', '{<<7, "data", 1>>}'),
        "pending": (
            "[job \\in {} |-> Idle]",
            '[job \\in Jobs |-> [kind |-> "write", phase |-> "data", changes |-> <<>>, parts |-> [b \\in {7} |-> 0]]]',
            '[job \\in Jobs |-> [kind |-> "compaction", phase |-> "metadata", parts |-> [b \\in {} |-> Idle]]]',
        ),
        "lock": ('"nobody"',),
        "log": ("<<wrong>>", '<<<<[key |-> 1, kind |-> "-U", row |-> 1]>>>>'),
    },
    "Rollbacks": {"rollbacks": ("<<-1>>",)},
    "AppendTable": {
        "files": ("<<<<<<0, wrong>>>>>>", '<<<<<<1, "second">>>>>>'),
        "live": ("{0}",),
        "indexes": (
            "{[name |-> <<0, wrong>>, deleted |-> {}]}",
            "{[name |-> <<0, CHOOSE job \\in Jobs : TRUE>>, deleted |-> {<<0, 1>>}]}",
        ),
        "commits": ("0 - 1",),
        "pending": (
            "[job \\in {} |-> Idle]",
            '[job \\in Jobs |-> [phase |-> "computed", change |-> [places |-> {}, removed |-> {}, under |-> {}, '
            "adds |-> <<>>, old |-> {<<0, wrong>>}, new |-> {}]]]",
            '[job \\in Jobs |-> [phase |-> "prepared"]]',
        ),
        "rows": ("{<<0, wrong>>}",),
    },
    "LogIndex": {
        "now": ("7",),
        "claimed": ("{0}",),
        "decisions": ('[time \\in Times |-> "unknown"]',),
        "completed": ("{7}",),
        "rolledBack": ("{0}",),
        "ended": ("[time \\in Times |-> 7]",),
        "seen": ("[time \\in Times |-> {0}]",),
        "group": ("[time \\in Times |-> 7]",),
        "work": (
            "[p \\in {} |-> Idle]",
            '[p \\in Processes |-> [Idle EXCEPT !.phase = "gone"]]',
            "[p \\in Processes |-> [Idle EXCEPT !.others = {0}]]",
        ),
    },
    "LogClean": {
        "now": ("0",),
        "bases": ("{0}",),
        "planned": ("7",),
        "there": ("{0}",),
        "retained": ("7",),
        "doomed": ("{0}",),
        "cleans": ("3",),
        "cleaner": ('[NoClean EXCEPT !.phase = "gone"]', "[NoClean EXCEPT !.gone = {0}]"),
        "reader": ('[NoRead EXCEPT !.phase = "gone"]', "[NoRead EXCEPT !.listed = {0}]"),
    },
    "LogArchive": {
        "requested": ("wrong",),
        "completed": ("wrong",),
        "decision": ('"unknown"',),
        "history": ("wrong",),
        "files": ("wrong",),
        "work": (
            "[p \\in {} |-> 0]",
            '[p \\in Processes |-> [phase |-> "gone", won |-> "none", acknowledged |-> FALSE]]',
        ),
    },
    "FenceNumbers": {
        "true": ("<<[by |-> wrong, attempt |-> 0]>>",),
        "there": ("[n \\in {0} |-> {}]", "[n \\in {1} |-> {[by |-> wrong, attempt |-> 0]}]"),
        "putting": (
            "[p \\in {} |-> 0]",
            '[p \\in Putters |-> [phase |-> "gone", number |-> 0, known |-> {}, attempt |-> 0]]',
            '[p \\in Putters |-> [phase |-> "idle", number |-> 0 - 1, known |-> {}, attempt |-> 0]]',
        ),
        "asking": (
            "[a \\in {} |-> 0]",
            '[a \\in Askers |-> [phase |-> "idle", number |-> 0, says |-> {[by |-> wrong, attempt |-> 0]}]]',
        ),
        "mistaken": ("wrong",),
    },
    "Assignment": {
        "index": ("[b \\in {} |-> {}]", "[b \\in Buckets |-> {wrong}]"),
        "version": ("0 - 1",),
        "rows": ("{<<0, wrong>>}",),
        "fold": ("{wrong}",),
        "writing": (
            "[w \\in {} |-> Idle]",
            '[w \\in Writers |-> [Idle EXCEPT !.phase = "gone"]]',
            '[w \\in Writers |-> [Idle EXCEPT !.work = "gone"]]',
            "[w \\in Writers |-> [Idle EXCEPT !.keys = {wrong}]]",
            "[w \\in Writers |-> [Idle EXCEPT !.after = [b \\in Buckets |-> {wrong}]]]",
            "[w \\in Writers |-> [Idle EXCEPT !.version = 0 - 1]]",
        ),
        "commits": ("0 - 1",),
    },
    "MovingKeys": {
        "waiting": ("[p \\in {} |-> <<>>]", "[p \\in Partitions |-> <<wrong>>]"),
        "folded": ("[p \\in {} |-> {}]", "[p \\in Partitions |-> {wrong}]"),
        "past": ("<<wrong>>",),
        "changed": ("[k \\in Keys |-> 0 - 1]",),
        "writing": (
            "[w \\in {} |-> Idle]",
            '[w \\in Writers |-> [Idle EXCEPT !.phase = "gone"]]',
            "[w \\in Writers |-> [Idle EXCEPT !.key = wrong]]",
            "[w \\in Writers |-> [Idle EXCEPT !.to = wrong]]",
            "[w \\in Writers |-> [Idle EXCEPT !.from = wrong]]",
            "[w \\in Writers |-> [Idle EXCEPT !.changed = 0 - 1]]",
        ),
        "compacting": (
            "[c \\in {} |-> 0]",
            '[c \\in Compactors |-> [phase |-> "gone", inputs |-> Nothing]]',
            '[c \\in Compactors |-> [phase |-> "idle", inputs |-> [p \\in {} |-> <<>>]]]',
            '[c \\in Compactors |-> [phase |-> "idle", inputs |-> [p \\in Partitions |-> <<wrong>>]]]',
        ),
    },
    "Retention": {
        "latest": ("0 - 1",),
        "snaps": ("{0}",),
        "expired": ("0 - 1",),
        "closed": ("0 - 1",),
        "fences": ("0 - 1",),
        "tags": ("[t \\in {wrong} |-> 0]",),
        "branches": ("[b \\in {wrong} |-> 0]",),
        "copies": ("{0}",),
        "consumers": ("[c \\in {} |-> 0]", "[c \\in Consumers |-> 0 - 1]"),
        "data": ("{0}",),
        "jobs": ("[p \\in {} |-> Idle]", '[p \\in Processes |-> [Idle EXCEPT !.step = "gone"]]'),
        "crashes": ("0 - 1",),
    },
    "FastForward": {
        "main": ("{[First EXCEPT !.id = 0 - 1]}",),
        "branch": ("{[First EXCEPT !.id = 0 - 1]}",),
        "generation": ("0 - 1",),
        "there": ("wrong",),
        "consumers": ("{wrong}",),
        "fences": ("0 - 1",),
        "data": ("{<<0 - 1, 0>>}",),
        "jobs": ("[p \\in {} |-> Idle]", '[p \\in Processes |-> [Idle EXCEPT !.step = "gone"]]'),
        "crashes": ("0 - 1",),
    },
    "Changelogs": {
        "recorded": (
            "[job \\in {} |-> {}]",
            "[job \\in Jobs |-> {[key |-> 1, before |-> {wrong}, after |-> {}]}]",
        ),
        "consumer": ("[key \\in {1} |-> wrong]", "[key \\in {wrong} |-> 1]"),
    },
    "LogChain": {
        "written": ("6",),
        "begin": ("0",),
        "planned": ("7",),
        "there": ("{0}",),
        "index": (
            "[log \\in {} |-> NoIndex]",
            "[log \\in Logs |-> [NoIndex EXCEPT !.members = {0}]]",
            "[log \\in Logs |-> [NoIndex EXCEPT !.chain = 6]]",
        ),
        "lost": ("{0}",),
    },
    "StoreOperations": {
        "expired": ("-1",),
        "held": (
            "[id \\in {0} |-> [owner |-> Nobody, epoch |-> 0]]",
            '[id \\in {1} |-> [owner |-> "w", epoch |-> 0]]',
        ),
        "puts": (
            "[job \\in {} |-> NoPut]",
            '[job \\in Jobs |-> [NoPut EXCEPT !.step = "gone"]]',
            "[job \\in Jobs |-> [NoPut EXCEPT !.id = -1]]",
        ),
        "late": (
            '{[job |-> "w", id |-> 1, epoch |-> 0]}',
            "{[job |-> CHOOSE j \\in Jobs : TRUE, id |-> -1, epoch |-> 0]}",
        ),
        "expiries": ("[e \\in {} |-> NoJob]",),
        "rollings": ("[r \\in {7} |-> NoJob]",),
        "readings": ("[r \\in {} |-> NoRead]",),
        "mistaken": ("wrong",),
    },
}
IN_MODEL: Final = {
    "Levels": "levels",
    "DeletionVectors": "two writers",
    "Refinement": "two writers, refinement",
    "Commit": "commit, two buckets",
    "Rollbacks": "commit, rollbacks",
    "StoreOperations": "store, reads",
    "AppendTable": "append, two deleters",
    "LogIndex": "log writers",
    "LogClean": "log clean",
    "LogArchive": "log archive",
    "FenceNumbers": "fence numbers",
    "Assignment": "bucket assignment",
    "MovingKeys": "moving keys",
    "Retention": "retention, consumers",
    "FastForward": "fast-forward, removal",
    "LogChain": "log chain",
    "Changelogs": "changelog",
}
INHERITED: Final = {
    "Refinement": ("DeletionVectors",),
    "Traces": ("DeletionVectors",),
    "Rollbacks": ("Commit",),
    "StoreOperations": ("Commit", "Rollbacks"),
    "StoreTraces": ("Commit", "Rollbacks", "StoreOperations"),
    "Changelogs": ("DeletionVectors",),
}
TRACE_MODELS: Final = {"Traces": model_of([Trace((), 4, 3)]), "StoreTraces": store_model_of([])}
INITIALLY: Final = {
    "Changelogs": "ChangelogInit",
    "Rollbacks": "RollbackInit",
    "StoreOperations": "StoreInit",
    "FenceNumbers": "FenceInit",
    "Assignment": "AssignmentInit",
    "MovingKeys": "MovingInit",
    "Refinement": "Init /\\ seen = See(Now)",
    "Traces": "TraceInit",
    "StoreTraces": "TraceInit",
}


def wrong_constant(name: str, constant: str) -> Wrong:
    """Return a model with a wrong constant, which an assumption about it must refuse."""
    constants = {**MODELS[name].constants, constant: WRONG_CONSTANTS[name][constant]}
    model = replace(MODELS[name], constants=constants, symmetry="")
    module = model.extends if constant in declared(model.extends, "CONSTANT") else "Bucket"

    def read(text: str) -> Found:
        violated = outcome(model, Printed(text, 0)).violated
        # Membership in a set of another kind is an error of TLC's, not FALSE; it names the assumption all the same.
        broken = re.match(
            r"TLC failed: (?:Assumption|Evaluating assumption) line (\d+), .* of module (\w+)", violated
        )
        return {"module": broken[2], "line": int(broken[1])} if broken else {"found": violated}

    def problem(found: Found) -> str | None:
        if found.get("module") == module and constant in MODULES[module].splitlines()[found["line"] - 1]:
            return None
        return f"expected an assumption of {module} about {constant} to be false, found {found}"

    return Wrong(model.files(), (), read, problem)


def wrong_values(module: str) -> Wrong:
    """Return a model in which each step gives one variable a wrong value."""
    (invariant,) = re.findall(r"^(\w*TypeOK) ==", MODULES[module], re.M)
    modules = (*INHERITED.get(module, ()), module)
    variables = [variable for one in modules for variable in declared(one, "VARIABLE")]
    steps = []
    for variable, values in WRONG_VALUES[module].items():
        others = ", ".join(one for one in variables if one != variable)
        steps += [f"(Valid /\\ {variable}' = {value} /\\ UNCHANGED <<{others}>>)" for value in values]
    base = TRACE_MODELS.get(module) or MODELS[IN_MODEL.get(module, "levels")]
    model = replace(
        base,
        extends=module,
        constants={} if module == "Table" else base.constants,
        specification="WrongSpec",
        invariants=(invariant,),
        properties=(),
        symmetry="",
    )
    definitions = [
        "CONSTANT wrong",
        f"Valid == {invariant} = TRUE",  # no step leaves a wrong state, so each is reported once
        "WrongNext == " + " \\/ ".join(steps),
        f"WrongSpec == ({INITIALLY.get(module, 'Init')}) /\\ [][WrongNext]_<<{', '.join(variables)}>>",
        "====",
    ]
    files = model.files()
    files["Model.tla"] = files["Model.tla"].replace("====", "\n".join(definitions))
    files["Model.cfg"] += "CONSTANT wrong = wrong\n"

    def read(text: str) -> Found:
        errors = [one for one in messages_in(text) if one.severity == 1]
        return {
            "violated": sum(one.code in Code.INVARIANT for one in errors),
            "states": outcome(model, Printed(text, 0)).states,
            "others": [one.text for one in errors if one.code not in (*Code.INVARIANT, *Code.BEHAVIOUR)],
        }

    def problem(found: Found) -> str | None:
        expected = {"violated": len(steps), "states": len(steps) + 1, "others": []}
        return None if found == expected else f"expected {expected}, found {found}"

    return Wrong(files, ("-continue",), read, problem)


ALL: Final[Mapping[str, Wrong]] = {
    **{
        f"{constant} in {name}": wrong_constant(name, constant)
        for name, wrong in WRONG_CONSTANTS.items()
        for constant in wrong
    },
    **{f"variables of {module}": wrong_values(module) for module in WRONG_VALUES},
}
