"""What actors did on a store, in steps of the TLA+ module StoreOperations.

1. A put of a snapshot is a job. It begins, is prepared on the snapshot that was its base, and is sent. It arrives or
   not, with an answer or without, is read back, and ends with a verdict. A job that lost begins again.
2. A fence that was created is planned, and put. A snapshot file that was removed is removed.

The steps are in the order of the operations on the store. Three kinds of step are no single operation. A verdict
stands where its job looked at the fences last. The preparation of a commit stands at the last time when its base was
the latest snapshot. The plan of an expiry or a rollback stands after its first look at the fences, at the first time
when the snapshots are there that its fence implies. TLC decides whether all this fits together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from pktable.catalog.publish import Put, Verdict
from pktable.format.metadata.snapshot import Fence, decode_fence, decode_snapshot, encode_snapshot
from pktable.format.paths import FENCE, SNAPSHOT, numbered

from model_tests.simulation.explore import BadRun, by_seed
from model_tests.simulation.log_oracle import FOREIGN, FOREIGN_ROLLBACK, Identity, LogOracle, identity_of
from model_tests.simulation.recording import PutBegun, PutEnded, Record
from model_tests.simulation.scheduler import Run
from model_tests.simulation.store import Effect, Happened, Outcome, Work
from model_tests.simulation.tables import PATHS, Setting, drawn, template

Step = Mapping[str, object]

AFTER: Final = 0.5
"""Added to a place in the story: just after it. Subtracted: just before it."""
NOT_DONE: Final = (Outcome.FAIL, Outcome.INTERRUPT_BEFORE)
DIES: Final = "Die"
ENDS: Final = {Verdict.COMMITTED: "Tell", Verdict.LOST: "Lose", Verdict.FAILED: "Lose"}
"""The steps of the verdicts that a job reaches by looking; any other is to give up, which is to die."""


@dataclass(frozen=True)
class StoreTrace:
    """The steps of a run, and the greatest ids that had expired, and that there were, at first."""

    expired: int
    latest: int
    steps: Sequence[Step]


def traced_seed(seed: int) -> tuple[Run | BadRun, StoreTrace | None]:
    """Return the run of a seed, and its trace; None if an actor puts no fences, which StoreOperations does not know."""
    jobs, setting = drawn(seed)
    story: list[Record] = []
    found = by_seed(seed, story)
    is_foreign = any({FOREIGN, FOREIGN_ROLLBACK} & {*job.kinds} for job in jobs.values())
    return found, None if is_foreign else trace_of(story, setting)


def trace_of(story: Sequence[Record], setting: Setting) -> StoreTrace:
    """Return what actors did on the table of a setting."""
    first = LogOracle.after(template(setting).log)
    files = set(first.retained)
    steps = []
    for step in _Teller(story, setting).steps():
        if step["action"] in ("ArriveFree", "Deliver"):
            files.add(int(str(step["id"])))
        elif step["action"] == "Remove":
            files.discard(int(str(step["id"])))
        steps.append({**step, "files": frozenset(files)})
    return StoreTrace(first.expired, max(first.retained), steps)


@dataclass
class _Attempt:
    """An attempt to put a snapshot. ``begin``, ``end``: places in the story. ``operations``: of its actor, by place.

    ``verdict``: None if the actor died. ``job``: a name, "" if it sent nothing. ``before``: the attempt of the same job
    that lost.
    """

    put: Put
    begin: int
    end: int = 0
    verdict: Verdict | None = None
    operations: dict[int, Happened] = field(default_factory=dict)
    job: str = ""
    before: _Attempt | None = None

    @property
    def path(self) -> str:
        return PATHS.snapshot(self.put.snapshot.id)

    @property
    def work(self) -> Work:
        return next(iter(self.operations.values())).work

    def sends(self, one: Happened) -> bool:
        """Whether an operation sends the put."""
        sent = one.outcome is not Outcome.CRASH_BEFORE
        return sent and (one.name, one.path) == ("put_if_absent", self.path)

    def reads_back(self, one: Happened) -> bool:
        """Whether an operation reads the file of its id."""
        return one.outcome is Outcome.DO and (one.name, one.path) == ("read", self.path)

    def saw(self, one: Happened) -> str:
        """Return what was read back."""
        if one.result is None:
            return "absent"
        return "mine" if one.result == encode_snapshot(self.put.snapshot) else "other"

    @property
    def ending(self) -> tuple[float, str]:
        """The place and the name of the last step of the job."""
        look = -1
        for at, one in self.operations.items():
            if self.sends(one) or self.reads_back(one):
                look = -1
            elif _is_look(one):
                look = at
        action = ENDS.get(self.verdict, DIES) if self.verdict else DIES
        return (self.end if action == DIES or look < 0 else look), action


def _is_look(one: Happened) -> bool:
    return one.outcome is Outcome.DO and (one.name, one.path) == ("list_names", PATHS.fences)


def _attempts(story: Sequence[Record]) -> list[_Attempt]:
    found: list[_Attempt] = []
    running: dict[str, _Attempt] = {}
    for at, one in enumerate(story):
        if isinstance(one, PutBegun):
            running[one.actor] = _Attempt(one.put, at)
            found.append(running[one.actor])
        elif isinstance(one, PutEnded):
            ended = running.pop(one.actor)
            crashes = (n for n, last in ended.operations.items() if last.outcome.value.startswith("crash"))
            ended.end, ended.verdict = next(crashes, at), one.verdict
        elif one.actor in running:
            running[one.actor].operations[at] = one
    return found


class _Teller:
    """Tells a story in steps, each with the place in the story where it happened."""

    def __init__(self, story: Sequence[Record], setting: Setting) -> None:
        self._attempts = _attempts(story)
        self._steps: list[tuple[float, Step]] = []
        self._by_identity: dict[Identity, _Attempt] = {}
        self._done = {at: one for at, one in enumerate(story) if isinstance(one, Happened)}
        log = template(setting).log
        self._expired = LogOracle.after(log).expired
        effects = {at: one.effect for at, one in self._done.items() if one.effect}
        self._oracle = LogOracle.after([*log, *effects.values()], kept=setting.kept)
        late = [at for number, at in enumerate(effects, len(log)) if number in self._oracle.late]
        for at in late:  # such a fence says nothing to anybody
            self._done[at] = replace(self._done[at], effect=None)
        past = self._oracle.past[len(log) :]
        self._latest = [max(retained, key=lambda one: one.id, default=None) for retained in past]
        """The latest snapshot after so many effects."""
        self._places = list(effects)
        self._rollbacks: list[int] = []
        """The places of their fences."""

    def steps(self) -> list[Step]:
        """Return the steps, in order."""
        self._name_jobs()
        for at, one in self._done.items():
            if one.effect:
                self._tell_effect(at, one, one.effect)
        for attempt in self._attempts:
            if attempt.job:
                self._tell_attempt(attempt)
        self._steps.sort(key=lambda pair: pair[0])
        return [step for _, step in self._steps]

    def _say(self, at: float, action: str, job: str, **fields: object) -> None:
        self._steps.append((at, {"action": action, "job": job, **fields}))

    # ---------------------------------------------------------------- commits

    def _name_jobs(self) -> None:
        last: dict[Work, _Attempt] = {}
        for number, one in enumerate(self._attempts, 1):
            if not any(map(one.sends, one.operations.values())):
                continue
            before = last.get(one.work)
            one.before = before if before and before.verdict is Verdict.LOST else None
            one.job = one.before.job if one.before else f"j{number}"
            last[one.work] = self._by_identity[identity_of(one.put.snapshot)] = one

    def _tell_attempt(self, one: _Attempt) -> None:
        self._tell_preparation(one)
        number = one.put.snapshot.id
        step, look = "none", 0
        for at, done in one.operations.items():
            if one.sends(done):
                if step == "none":
                    self._say(at - AFTER, "Send", one.job, id=number)
                else:
                    self._say(look, "SendAgain", one.job)
                step = self._tell_put(at, done, one)
            elif _is_look(done):
                look = at
            elif one.reads_back(done) and step in ("unsure", "read"):
                self._say(at, "ReadBack", one.job, saw=one.saw(done))
                step = "read"
        place, action = one.ending
        self._say(place, action, one.job)

    def _tell_preparation(self, one: _Attempt) -> None:
        """Tell that a job began, at the last time when its base was the latest snapshot."""
        known = one.put.snapshot.fence or 0
        epoch = sum(added <= known for added, _ in self._oracle.rollbacks)
        effects = sum(place < one.begin for place in self._places)
        last = max((n for n in range(effects + 1) if self._latest[n] == one.put.base), default=effects)
        at = (one.begin if last == effects else self._places[last]) - AFTER
        if one.before:
            at = max(at, one.before.ending[0])
        else:
            self._say(at, "Begin", one.job)
        there = sum(place < at for place in self._rollbacks)
        base = one.put.base.id if one.put.base else 0
        self._say(at, "Prepare", one.job, base=base, epoch=min(epoch, there))
        if epoch > there:
            self._say(self._rollbacks[epoch - 1] + AFTER, "LookAfterwards", one.job, epoch=epoch)

    def _tell_put(self, at: int, done: Happened, one: _Attempt) -> str:
        """Tell whether a put arrived. Return the step of its job then."""
        answered = done.outcome is Outcome.DO
        if done.effect:
            self._say(at, "ArriveFree", one.job, id=one.put.snapshot.id, answer=answered)
            return "put" if answered else "unsure"
        if done.outcome is Outcome.LATE or done.outcome in NOT_DONE:
            self._say(at, "LoseAnswer", one.job, wire=done.outcome is Outcome.LATE)
        else:
            self._say(at, "ArriveTaken", one.job)
        return "unsure"

    # ---------------------------------------------------------------- files

    def _tell_effect(self, at: int, done: Happened, effect: Effect) -> None:
        name = effect.path.rpartition("/")[2]
        number = numbered(name, SNAPSHOT)
        if number is not None and effect.path == PATHS.snapshot(number):
            if effect.data is None:
                self._say(at, "Remove", "", id=number)
            elif not done.actor:
                snapshot = decode_snapshot(effect.data, at=effect.path)
                self._say(at, "Deliver", self._by_identity[identity_of(snapshot)].job, id=number)
        number = numbered(name, FENCE)
        if number is not None and effect.path == PATHS.fence(number) and effect.data is not None:
            self._tell_fence(at, decode_fence(number, effect.data, at=effect.path), effect.by)

    def _tell_fence(self, at: int, fence: Fence, by: Work) -> None:
        """Tell how a rollback or an expiry was planned, and put its fence."""
        named = [self._by_identity.get(one) for one in fence.ended.items()]
        names = frozenset(one.job for one in named if one)
        targets = [one.target for one in fence.rollbacks if one.fence == fence.number]
        if targets:
            job, planned = f"r{fence.number}", self._planned(at, by, max(fence.ended))
            self._rollbacks.append(at)
            self._say(planned, "PlanRollback", job, target=targets[0])
            self._say(at, "FenceRollback", job, names=names)
            return
        planned = self._planned(at, by, fence.expired + 1)
        for number in range(self._expired + 1, fence.expired + 1):
            self._say(planned, "PlanExpiry", f"e{number}")
            self._say(at, "FenceExpiry", f"e{number}", names=names)
            planned = at
        self._expired = fence.expired

    def _planned(self, at: int, by: Work, number: int) -> float:
        """Return when the fence that was put at a place was planned, by someone who knew the snapshot of a number.

        It looked at the fences since the fence before was put, and listed the snapshots after its first look.
        """
        effects = {
            n: one.effect for n, one in self._done.items() if n < at and one.effect and one.effect.data
        }
        before = max(
            (n for n, one in effects.items() if one.path.startswith(f"{PATHS.fences}/{FENCE}")), default=-1
        )
        done = ((n, one) for n, one in self._done.items() if n > before and one.work is by)
        look = next((n for n, one in done if _is_look(one)), -1)
        created = max((n for n, one in effects.items() if one.path == PATHS.snapshot(number)), default=-1)
        return max(look, created) + AFTER
