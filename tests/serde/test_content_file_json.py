"""Content files are unchanged after they are sent to another process."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iceberg_ops.errors import DataError
from iceberg_ops.serde.json.content_file_json import data_file_from_dict, data_file_to_dict, value_from_json, value_to_json
from iceberg_ops.spec.manifests import ManifestContent
from tests.serde.manifest_cases import data_files, partition_layouts
from tests.strategies import primitive_types, values


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_file_round_trips_through_json(data: st.DataObject) -> None:
    _, spec, partition_type = data.draw(partition_layouts())
    f = data.draw(data_files(partition_type, spec.spec_id, data.draw(st.sampled_from(ManifestContent))))
    assert data_file_from_dict(json.loads(json.dumps(data_file_to_dict(f)))) == f


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_every_canonical_value_round_trips_with_its_type(data: st.DataObject) -> None:
    value = data.draw(values(data.draw(primitive_types())))
    back = value_from_json(json.loads(json.dumps(value_to_json(value))))
    assert type(back) is type(value)
    assert repr(back) == repr(value)


@pytest.mark.parametrize("broken", [{}, {"content": 9}, {"content": 0, "file_path": "p", "file_format": "csv"}])
def test_malformed_files_are_refused(broken: dict[str, object]) -> None:
    with pytest.raises(DataError, match="content file in JSON is malformed"):
        data_file_from_dict(broken)


def test_what_is_no_canonical_value_is_refused() -> None:
    with pytest.raises(DataError, match="object"):
        value_to_json(object())
