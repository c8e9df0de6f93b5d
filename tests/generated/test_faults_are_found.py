"""Each known fault of reading and writing, and the generator that finds it: a seed of its normal run, which passes with the present
package, fails once the old rule is back (``as_it_was``).

``python -m tests.generated.test_faults_are_found`` prints the first seed that finds each fault; a seed moves when its generator
draws something else."""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.data import test_json_rows, test_properties
from tests.generated import as_it_was as was
from tests.generated import test_imported_files, test_model, test_spec_evolution, test_text_sources, test_written_files
from tests.generated.as_it_was import Switch
from tests.generated.drawing import Draw, uncounted
from tests.serde import test_single_value_json
from tests.torture.switching import replaced


@dataclass(frozen=True)
class Generator:
    """``check`` raises for a seed that shows a fault; a normal run takes the seeds below ``cases``."""

    cases: int
    check: Callable[[int, Path], object]


def drawn(kind: str, cases: int, check: Callable[[Draw, Path], object]) -> Generator:
    return Generator(cases, lambda seed, folder: check(Draw(kind, seed), folder))


def whole(check: Callable[[], object]) -> Generator:
    """Of a test that draws all its cases itself."""
    return Generator(1, lambda _seed, _folder: check())


MODEL = drawn(test_model.KIND, test_model.CASES, test_model.check_one)
SPECS = drawn(test_spec_evolution.KIND, test_spec_evolution.CASES, test_spec_evolution.check)
FILES = drawn(test_written_files.KIND, test_written_files.CASES, test_written_files.check)
LANES = drawn(test_written_files.LANES, test_written_files.CASES_OF_LANES, test_written_files.check_lane_local)
CSV = drawn(test_text_sources.LOCAL_CSV, test_text_sources.LOCAL_CASES, test_text_sources.check_local_csv)
JSON = drawn(test_text_sources.LOCAL_JSON, test_text_sources.LOCAL_CASES, test_text_sources.check_local_json)
IMPORTS = Generator(test_imported_files.CASES, test_imported_files.check_filters)
PATTERNS = whole(test_properties.test_like_on_columns_agrees_with_the_scalar_evaluator)
PRINTED = whole(test_json_rows.test_every_value_at_the_edges_comes_back)
DEFAULTS = whole(test_single_value_json.test_decimal_text_reads_back_at_its_scale)


@dataclass(frozen=True)
class Fault:
    """``switch`` restores it; ``says``: the message of the failure (a regular expression)."""

    switch: Switch
    found_by: Generator
    seed: int
    says: str


UNITED = "spec.partition_union:partition_union"
EXPONENT: Switch = {"serde.json.single_value_json:decimal_text": was.with_exponent}
FAULTS: dict[str, Fault] = {
    "LIKE with a literal backslash": Fault(
        {"data.columns.row_filter:_like": was.like_of_arrow}, PATTERNS, 0, r"\\\\"
    ),
    "nanoseconds cut to microseconds": Fault(
        {"expressions.comparisons:timestamp_literal": was.cut_to_microseconds}, MODEL, 4, r"where .*\.\d{9}"
    ),
    "decimals with an exponent in rows": Fault(EXPONENT, PRINTED, 0, r"\dE-\d"),
    "decimals with an exponent in defaults": Fault(EXPONENT, DEFAULTS, 0, r"\dE-\d"),
    "sorted by the source column": Fault(
        {"data.columns.sort_keys:order_keys": was.by_the_source_column}, FILES, 32, r"does not follow .* by (bucket|truncate)"
    ),
    "an order that rows do not have": Fault(
        {"data.sorting.sorted_writer:table_writer": was.as_they_come, "data.writing.row_order:RowOrder.holds": was.believed},
        LANES, 0, "does not follow",
    ),
    "a void field of a dropped column": Fault(
        {"data.writing.writer:_partition_column": was.of_its_source}, SPECS, 6, r"SchemaError: schema \d+ has no field with id"
    ),
    "partition fields of one id are one": Fault({UNITED: was.by_field_id}, SPECS, 8, "Expected bytes, got a 'int'"),
    "partition fields of one name are one": Fault({UNITED: was.by_name}, SPECS, 11, "_partition of"),
    "JSON behind the first value": Fault(
        {"data.sources.text.json_values:_loaded": was.the_first_value}, JSON, 0, "nothing is wrong with"
    ),
    "JSON fields that the table lacks": Fault(
        {
            "data.sources.text.json_shape:_fields": was.fields_of_the_table,
            "data.sources.text.json_rows:_placed": was.known_fields,
        },
        JSON, 8, "nothing is wrong with",
    ),
    "nested JSON names in another case": Fault(
        {"data.sources.text.json_rows:_struct": was.in_their_case}, JSON, 13, "'Name': None"
    ),
    "CSV quotes that do not pair up": Fault(
        {"data.sources.text.csv_records:CsvCutter.fields": was.split_at_separators}, CSV, 0, "nothing is wrong with"
    ),
    "numbers that become infinite": Fault(
        {"data.sources.text.text_values:parse_floating": was.to_infinity}, CSV, 119, "nothing is wrong with"
    ),
    "imported names in another case": Fault(
        {"data.columns.file_columns:_mapped": was.exactly}, IMPORTS, 0, "'NAME' is not a column"
    ),
    "imported names are not mapped": Fault({"spec.name_mapping:with_names": was.as_mapped}, IMPORTS, 0, "NAME"),
    "folders that are rounded": Fault({"planning.partition_folders:_value": was.as_cast}, IMPORTS, 3, "p=1.505 is taken"),
    "statistics of any writer": Fault(
        {"data.formats.footer_statistics:TrustedStatistics._in_order": was.of_any_writer}, IMPORTS, 17, "d (=|<|>=) "
    ),
    "equality deletes of their own commit": Fault(
        {"scan.delete_index:DeleteIndex.for_data_file": was.at_the_same_number}, MODEL, 4, "rows after"
    ),
    "equality deletes of another partition": Fault({"scan.delete_index:DeleteIndex._add": was.everywhere}, MODEL, 29, "rows after"),
    "a residual that the partition decides": Fault(
        {"expressions.residuals:_leaf_residual": was.at_its_partition}, MODEL, 12, "where|rows after"
    ),
    "no initial default": Fault({"data.columns.missing_values:_initial_default": was.without_default}, MODEL, 1, "rows after"),
    "row ids of the file alone": Fault(
        {"data.columns.metadata_values:_column": was.by_the_file}, MODEL, 1, "row .* after"
    ),
    "a changelog without delete files": Fault({"scan.incremental:_changes": was.files_alone}, MODEL, 1, "changelog"),
    "a changelog with copied rows": Fault({"data.rewriting.changelog:_without": was.copies_too}, MODEL, 4, "changelog"),
}  # fmt: skip


def failure(switch: Switch, generator: Generator, seed: int, folder: Path) -> str | None:
    """What the seed says with these rules."""
    try:
        with uncounted(), replaced(switch):
            generator.check(seed, folder)
    except Exception as e:  # noqa: BLE001 - a wrong rule may fail in any way
        return f"{type(e).__name__}: {e}"
    return None


@pytest.mark.parametrize("name", FAULTS)
def test_with_its_rule_as_it_was_the_fault_is_found(name: str, tmp_path: Path) -> None:
    fault = FAULTS[name]
    assert fault.seed < fault.found_by.cases, "the generator's own test does not play that seed"
    said = failure(fault.switch, fault.found_by, fault.seed, tmp_path)
    assert said is not None, f"seed {fault.seed} passes"
    assert re.search(fault.says, said), said


def find(name: str) -> tuple[int, str] | None:
    """The first seed of a normal run that finds the fault, and what it says."""
    fault = FAULTS[name]
    for seed in range(fault.found_by.cases):
        with tempfile.TemporaryDirectory() as folder:
            said = failure(fault.switch, fault.found_by, seed, Path(folder))
        if said is not None and re.search(fault.says, said):
            return seed, said
    return None


if __name__ == "__main__":
    for one in sys.argv[1:] or FAULTS:
        print(f"{one}: {find(one)}", flush=True)
