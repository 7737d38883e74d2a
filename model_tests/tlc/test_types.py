"""The types of the TLA+ modules: every variable has one, every constant is assumed to be of one; both are seen red."""

from __future__ import annotations

import re

from model_tests.tlc import record
from model_tests.tlc.checker import FLAGS, printed_for
from model_tests.tlc.models import PASSES
from model_tests.tlc.store_traces import model_of as store_model_of
from model_tests.tlc.traces import Trace, model_of
from model_tests.tlc.wrong_types import ALL, MODELS, MODULES, WRONG_CONSTANTS, WRONG_VALUES, declared


def test_names_are_found_as_they_are_declared() -> None:
    assert declared("Levels", "VARIABLE") == ["runs", "snapshot"]
    assert declared("Refinement", "VARIABLE") == ["seen"]
    assert declared("Bucket", "CONSTANT") == ["Vectors", "MaxLevel", "Trigger"]
    assert declared("Bucket", "VARIABLE") == []


def test_every_module_with_variables_has_a_type_invariant() -> None:
    untyped = {
        module
        for module in MODULES
        if declared(module, "VARIABLE") and not re.search(r"^\w*TypeOK ==", MODULES[module], re.M)
    }
    assert untyped == set()


def test_every_constant_is_the_subject_of_an_assumption_of_its_module() -> None:
    free = {
        (module, constant)
        for module in MODULES
        for constant in declared(module, "CONSTANT")
        if not re.search(rf"^ASSUME .*\b{constant}\b", MODULES[module], re.M)
    }
    assert free == set()


def test_every_model_that_holds_checks_the_types_of_its_variables() -> None:
    unchecked = {
        model.name
        for model in [*MODELS.values(), model_of([Trace((), 4, 3)]), store_model_of([])]
        if model.expected.violated == PASSES and not any(one.endswith("TypeOK") for one in model.invariants)
    }
    assert unchecked == set()


def test_a_wrong_value_of_every_constant_is_tried() -> None:
    tried = {
        (MODELS[name].extends, constant) for name, wrong in WRONG_CONSTANTS.items() for constant in wrong
    }
    of_bucket = {("DeletionVectors", constant) for constant in declared("Bucket", "CONSTANT")}
    assert tried == of_bucket | {
        (module, constant)
        for module in MODULES
        if module != "Bucket"
        for constant in declared(module, "CONSTANT")
    }


def test_wrong_values_of_every_variable_are_tried() -> None:
    tried = {(module, variable) for module, wrong in WRONG_VALUES.items() for variable in wrong}
    assert tried == {(module, one) for module in MODULES for one in declared(module, "VARIABLE")}


def test_tlc_has_refused_every_wrong_constant_and_value() -> None:
    stored, problems = record.stored(), {}
    for name, wrong in ALL.items():
        entry = record.found_in(stored, "types", name, record.key_of(wrong.files, *FLAGS, *wrong.flags))
        problems[name] = wrong.problem(entry["found"]) if entry else "not on record: run make tla"
    assert {name: one for name, one in problems.items() if one} == {}


def test_what_is_not_refused_is_a_problem() -> None:
    wrong = ALL["Batches in levels"]
    right = {**wrong.files, "Model.tla": ALL["MaxLevel in levels"].files["Model.tla"]}
    assert wrong.problem(wrong.read(printed_for(wrong.files, *wrong.flags).text)) is None
    assert wrong.problem(wrong.read(printed_for(right, *wrong.flags).text)) is not None
    found = ALL["variables of Table"].read("")  # TLC ended before it tried any
    assert found == {"violated": 0, "states": 0, "others": []}
    assert ALL["variables of Table"].problem(found) is not None
