"""The Dockerfile: small, reproducible, not root at the end, and all files it copies exist."""

from __future__ import annotations

import re

from tests.deploy.documents import ROOT, dockerfile


def instructions() -> list[tuple[str, str]]:
    joined = re.sub(r"\\\n\s*", " ", dockerfile())
    lines = [line for line in joined.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    return [(word, rest) for word, _, rest in (line.strip().partition(" ") for line in lines)]


def test_it_does_not_end_as_root() -> None:
    assert [rest for word, rest in instructions() if word == "USER"][-1] == "airflow"


def test_package_lists_are_removed_in_the_layer_that_fetched_them() -> None:
    for word, rest in instructions():
        if word == "RUN" and "apt-get install" in rest:
            assert "--no-install-recommends" in rest
            assert "rm -rf /var/lib/apt/lists/*" in rest


def test_nothing_is_piped_from_the_network_into_a_shell() -> None:
    assert not re.search(r"(curl|wget)[^\n]*\|\s*(ba)?sh", dockerfile())
    assert "ADD http" not in dockerfile()


def test_python_packages_come_pinned() -> None:
    installs = [rest for word, rest in instructions() if word == "RUN" and "pip install" in rest]
    assert installs
    assert all("--constraint constraints.txt" in rest and "--no-cache-dir" in rest for rest in installs)


def test_everything_copied_exists_and_is_not_ignored() -> None:
    ignored = (ROOT / ".dockerignore").read_text().split()
    for word, rest in instructions():
        if word == "COPY":
            sources = [part for part in rest.split() if not part.startswith("--")][:-1]
            for source in sources:
                assert (ROOT / source).exists(), source
                assert source not in ignored


def test_java_is_new_enough_and_named() -> None:
    assert "openjdk-17-jre-headless" in dockerfile()
    assert ("ENV", "JAVA_HOME=/opt/java") in instructions()
