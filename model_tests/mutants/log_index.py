"""Faults of the index of Hudi's log files. H01 to H14 are what can go wrong if RFC-06 is taken by its words.

Each has a small file group in which it shows (`model_tests.hudi.lookup_cases`), and the check that must find it.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from pktable_conform.judge.checks import CheckFailed
from pktable_hudi import group_write, index_writer, lookup, slices
from pktable_hudi.format import bloom, key_summary, log_block, log_index
from pktable_hudi.format.bloom import SimpleFilter

from model_tests.hudi import lookup_cases as cases
from model_tests.mutants.registry import Fault, Kill, Mutant, both, instead, patched, reworded

MISSED: Final = "keys_are_found: missed"
FOUND: Final = "keys_are_found: found"
REFUSED: Final = "keys_are_found: refused: .*: block at 0: expected the rows of the completed commit"


@dataclass(frozen=True)
class LookupMutant(Mutant):
    """A fault of the index, and the case in which it shows."""

    case: cases.Case = cases.a_file_without_an_index

    def replayed(self, directory: Path) -> Kill | None:
        """Do the case with the fault; None if nothing noticed it."""
        with self.inject():
            try:
                self.case(directory)
            except CheckFailed as failure:
                return self.kill(failure)
        return None


def _mutant(
    number: int, title: str, inject: Fault, case: cases.Case, clause: str, found_by: str = MISSED
) -> LookupMutant:
    return LookupMutant(f"H{number:02}", title, inject, found_by, (clause,), case=case)


def _padded(first: SimpleFilter, second: SimpleFilter) -> SimpleFilter:
    """The union of two filters, the bits of the shorter one behind zeros."""
    size = max(len(first.bits), len(second.bits))
    bits = [np.pad(one.bits, (0, size - len(one.bits))) for one in (first, second)]
    return SimpleFilter(first.bit_count, first.hash_count, bits[0] | bits[1])


def _newest_alone(original: Any) -> Any:
    return lambda group, timeline, settings: original(group, timeline, settings)[-1:]


OTHER_KEYS = "for log in others for key in self._keys(log.name)"
ADDED_BITS = "filter_of_shape(_hashed(added), known.filter.bit_count, known.filter.hash_count)"

LOOKUP_MUTANTS: Final = (
    _mutant(
        1, "the accumulated filter has the keys of complete commits only, as the RFC says",
        reworded(index_writer, (
            OTHER_KEYS,
            "for log in others if any(one.startswith(f'{log.instant}_') for one in"
            " self.store.list_names(f'{self.root}/.hoodie/timeline')) for key in self._keys(log.name)",
        )),
        cases.an_open_commit_is_completed_later, "LOG-45",
    ),
    _mutant(
        2, "a file whose last block has no keys answers for none of the files before it",
        reworded(lookup, ("NONE if index.all is None else", "NONE if index.own is None else")),
        cases.a_delete_comes_last, "LOG-42",
    ),
    _mutant(
        3, "a file without an index has no keys",
        reworded(lookup, ("candidates[log.name] = batch.numbers", "candidates[log.name] = NONE")),
        cases.a_file_without_an_index, "LOG-40",
    ),
    _mutant(
        4, "the keys of files without an index are left out of the next index",
        reworded(index_writer, (
            OTHER_KEYS,
            "for log in others if index_of_file(self.store, self.slice.path(self.root, log.name))"
            " for key in self._keys(log.name)",
        )),
        cases.an_index_behind_a_file_without_one, "LOG-40",
    ),
    _mutant(
        5, "the greatest key is out of its range",
        patched((key_summary, "bisect_right", instead(bisect_left))),
        cases.an_index_behind_a_file_without_one, "LOG-16",
    ),
    _mutant(
        6, "the greatest key is that of Java's order, and a lookup compares bytes",
        reworded(index_writer, (
            "return max(keys, key=KeyCollation.BYTES.of)", "return max(keys, key=KeyCollation.JAVA.of)",
        )),
        cases.keys_whose_order_is_not_that_of_java, "LOG-15",
    ),
    _mutant(
        7, "a new clique does not point to the one before",
        reworded(index_writer, ("chain = (itself,)\n", "chain = ()\n")),
        cases.a_file_of_an_earlier_clique_is_missing, "LOG-79", "a_missing_file_is_damage: .* is not missed",
    ),
    _mutant(
        8, "a lookup ends at the first clique that does not have the key",
        reworded(lookup, (
            "            candidates[log.name] = admitted\n",
            "            candidates[log.name] = admitted\n"
            "            if not len(admitted):\n"
            "                return {one.name: candidates.get(one.name, NONE) for one in self.slice.logs}, rolled\n",
        )),
        cases.a_clique_of_each_file, "LOG-41",
    ),
    _mutant(
        9, "while a compaction is planned, only the newest slice is asked",
        patched((slices, "all_slices", _newest_alone)),
        cases.a_compaction_is_planned, "LOG-24",
    ),
    _mutant(
        10, "the keys of an index are in the order in which they came",
        reworded(log_index, ("sorted(range(len(encoded)), key=encoded.__getitem__)", "list(range(len(encoded)))")),
        cases.keys_out_of_order, "LOG-15", "nothing_is_damaged: LOG-47",
    ),
    _mutant(
        11, "the rest of a file behind a torn block is not read",
        reworded(log_block, ("data.find(MAGIC, offset + len(MAGIC))", "-1")),
        cases.a_block_behind_a_torn_one, "LOG-3", REFUSED,
    ),
    _mutant(
        12, "a rollback clears the accumulated filter, also of the keys of others",
        reworded(index_writer, (
            "everything, count = self._extended(before, added)",
            "everything, count = self._extended(None if rolled else before, sorted(set(keys)) if rolled else added)",
        )),
        cases.a_rollback_in_the_log, "LOG-45",
    ),
    _mutant(
        13, "the blocks of commits that are not complete count",
        reworded(lookup, (
            "return instant <= self.instant and self.timeline.is_completed(instant)", "return instant <= self.instant",
        )),
        cases.a_block_of_an_open_commit, "LOG-25", FOUND,
    ),
    _mutant(
        14, "the range in a base file is made before its last row",
        reworded(group_write, (
            "_footer(rows.column(key).to_pylist())", "_footer(rows.column(key).to_pylist()[:-1])",
        )),
        cases.a_base_file_of_ours, "LOG-16",
    ),
    _mutant(
        15, "a filter gets more keys than it is sized for",
        reworded(index_writer, ("index.all_count + added <= most\n", "most > 0\n")),
        cases.more_keys_than_a_filter_is_sized_for, "LOG-48", "filter_is_not_overfull: ",
    ),
    _mutant(
        16, "filters of different sizes are joined bit by bit",
        both(
            patched((SimpleFilter, "union", instead(_padded))),
            reworded(index_writer, (
                ADDED_BITS, "filter_of_shape(_hashed(added), known.filter.bit_count // 2, known.filter.hash_count)",
            )),
        ),
        cases.a_rollback_in_the_log, "LOG-14",
    ),
    _mutant(
        17, "the last bytes of a key are hashed without their signs",
        reworded(bloom, (".view(np.int8).astype(np.int32)", ".astype(np.int32)")),
        cases.keys_beyond_ascii, "LOG-13", "filters_are_hadoops: ",
    ),
    _mutant(
        18, "a row that deletes its key does not count",
        reworded(lookup, ("[one.keys for one in rows]", "[one.keys.filter(pa.array(~one.deletes)) for one in rows]")),
        cases.a_row_that_deletes, "LOG-41",
    ),
    _mutant(
        19, "a list of cliques is pruned by names, and not by what was compacted",
        reworded(index_writer, ("if one.name in self.slice.sizes", "if one.name > min(self.slice.sizes)")),
        cases.a_list_of_cliques, "LOG-48", "chain_is: ",
    ),
    _mutant(
        20, "the absolute value of a hash is taken with 32 bits",
        reworded(bloom, (
            "np.abs(self._last.view(np.int32).astype(np.int64))",
            "np.abs(self._last.view(np.int32)).astype(np.int64)",
        )),
        cases.a_key_of_the_least_hash, "LOG-13", "filters_are_hadoops: ",
    ),
    _mutant(
        21, "the reverse length counts itself",
        reworded(log_block, ("_LONG.pack(length + len(MAGIC))", "_LONG.pack(length + len(MAGIC) + _LONG.size)")),
        cases.a_file_without_an_index, "LOG-1", REFUSED,
    ),
    _mutant(
        22, "an empty key is put into a filter",
        reworded(bloom, ("if pc.index(pc.binary_length(stored), 0).as_py() >= 0:", "if False:")),
        cases.an_empty_key, "LOG-13", "an_empty_key_is_refused: ",
    ),
)  # fmt: skip
