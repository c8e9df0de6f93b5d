"""Names of the JVM are asked for once, values each time."""

from __future__ import annotations

from typing import Any

import pytest
from py4j.java_gateway import JavaPackage

from tests.spark.remembered_names import remembering


class Owner:
    """Stands for what PySpark asks; it notes the names."""

    def __init__(self, answer: Any) -> None:
        self.answer, self.asked = answer, list[str]()

    def look_up(self, name: str) -> Any:
        self.asked.append(name)
        return self.answer

    __getattr__ = remembering(look_up)


@pytest.mark.parametrize(
    ("answer", "times"), [(JavaPackage("org", None), 1), ("a value", 2), (None, 2)], ids=["name", "text", "null"]
)
def test_a_name_is_asked_for_once_and_a_value_each_time(answer: Any, times: int) -> None:
    owner, other = Owner(answer), Owner(answer)
    assert [owner.org, owner.org] == [answer, answer]
    assert owner.asked == ["org"] * times
    assert (other.org, other.asked) == (answer, ["org"]), "each owner is asked"
