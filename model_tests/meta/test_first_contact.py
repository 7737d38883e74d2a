"""What new users tripped over, and the test that keeps it mended."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import Final

import pytest

TESTS: Final = Path(__file__).parents[1]

STUMBLES: Final[dict[str, tuple[str, ...]]] = {
    "1. columns, options and names could not be changed": (
        "table/test_alter.py::test_a_column_that_was_dropped_does_not_come_back",
        "cli/test_cli.py::test_columns_and_options_are_changed",
    ),
    "2. no SQL by name": (
        "warehouse/test_sql.py::test_a_query_reads_tables_by_name_at_the_versions_that_it_asks_for",
        "warehouse/test_sql.py::test_a_statement_leaves_the_rows_and_reports_how_many",
    ),
    "3. Paimon's default table, and others, could only be read": (
        "buckets/test_assignment.py::test_a_table_of_paimon_is_written_on",
        "buckets/test_waiting.py::test_rows_that_wait_in_a_table_of_paimon_are_moved",
    ),
    "4. the data source was not found from an environment that is not activated": (
        "warehouse/test_sql.py::test_a_session_finds_the_data_source_whatever_is_on_the_path",
        "table/test_spark_workers.py::test_workers_of_a_venv_that_is_not_activated_run_its_interpreter",
    ),
    "5. --spark without pyspark was an internal error": (
        "cli/test_cli_outcomes.py::test_a_missing_pyspark_is_one_line",
    ),
    "6. the ids of clauses could not be looked up": (
        "meta/test_clauses.py::test_the_command_prints_a_clause_and_refuses_what_is_none",
    ),
    "7. DuckDB and polars read the whole table": (
        "table/test_dataset.py::test_a_dataset_gives_what_arrow_makes_of_all_rows",
    ),
    "8. no branches": ("table/test_branches.py::test_a_branch_has_rows_and_snapshots_of_its_own",),
    "9. no warehouse": ("warehouse/test_warehouse.py::test_a_dropped_table_leaves_no_file",),
    "10. a view showed an old snapshot, and LOCATION failed late": (
        "warehouse/test_sql.py::test_a_view_is_read_again_at_each_use",
        "warehouse/test_sql.py::test_what_is_not_understood_is_refused_and_nothing_is_written",
    ),
    "11. conditions had few functions, and a refusal did not say which": (
        "predicate/test_predicate.py::test_what_is_not_understood_is_refused_by_name",
        "predicate/test_predicate.py::test_a_regular_expression_finds_what_java_finds",
    ),
    "12. a repeated commit gave a snapshot that reads empty": (
        "commit/test_commit_ids.py::test_a_repeated_write_is_told_a_snapshot_that_shows_its_rows",
    ),
    "13. statements gave no counts, and Spark's jobs had no names": (
        "statements/test_results.py::test_a_change_says_how_many_rows_it_changed",
        "statements/test_spark.py::test_jobs_say_what_they_do_to_which_table",
    ),
    "14. the kit demanded Paimon's own picks, and readers could not use it": (
        "conform/test_runner.py::test_names_of_cases_and_checks_are_known_or_refused",
        "conform/test_reader_mode.py::test_a_faulty_reader_fails_the_case_that_is_there_for_it",
    ),
    "15. the fixtures had no damaged case, and named few clauses": (
        "conform/test_fixtures.py::test_every_clause_on_bytes_and_reads_is_named_by_a_case_or_has_a_reason",
    ),
    "16. the specification was raw files": (
        "meta/test_site.py::test_every_clause_in_force_has_a_page_with_its_requirement",
    ),
    "17. a verification was silent, and left no report": (
        "verify/test_verify.py::test_a_run_is_written_down",
        "cli/test_cli_outcomes.py::test_a_log_gets_a_line_now_and_then_and_one_at_the_end",
    ),
    "18. defaults were silent, and types were checked after the work": (
        "cli/test_cli.py::test_what_is_made_without_being_asked_for_is_said",
        "statements/test_refused_text.py::test_a_number_with_more_places_is_refused_whatever_the_rows_are",
    ),
    "19. a check called a table clean whose reads are refused": (
        "append/test_data_evolution.py::test_a_check_says_that_reads_with_deletion_vectors_are_refused",
    ),
    "20. no save() of a new table, no head; words of libraries in errors; level 0 counted as rows": (
        "source/test_writer.py::test_a_write_makes_the_table_if_it_is_given_the_key",
        "table/test_at_home.py::test_a_schema_is_shown_as_a_person_reads_it",
        "table/test_at_home.py::test_a_condition_of_pyarrow_means_what_it_says",
        "cli/test_cli_outcomes.py::test_an_error_is_in_words_of_the_command_line",
        "cli/test_cli_outcomes.py::test_rows_that_a_default_read_leaves_out_are_reported",
    ),
}


@cache
def functions_in(file: str) -> frozenset[str]:
    """Return the names of the functions of a file of tests."""
    tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
    return frozenset(one.name for one in tree.body if isinstance(one, ast.FunctionDef))


@pytest.mark.parametrize("stumble", STUMBLES)
def test_a_stumble_has_tests_that_keep_it_mended(stumble: str) -> None:
    for named in STUMBLES[stumble]:
        file, _, name = named.partition("::")
        assert name in functions_in(file), named
