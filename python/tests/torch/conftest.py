"""Makes a pytest test of every case and number of ranks, and runs all that have a number of ranks in common as one job."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from launching import PACKAGE, CaseJob

sys.path.insert(0, str(PACKAGE))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if {"case", "ranks"} <= set(metafunc.fixturenames):
        pairs = [(case.name, ranks) for case in metafunc.module.CASES for ranks in case.ranks]
        ids = [f"{name}-{ranks} ranks" for name, ranks in pairs]
        metafunc.parametrize(("case", "ranks"), pairs, ids=ids)


def _parameters(item: pytest.Item) -> dict[str, object]:
    call = getattr(item, "callspec", None)
    return call.params if call and {"case", "ranks"} <= set(call.params) else {}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Cases first, fewest ranks first: then only one job is under way at a time."""
    items.sort(key=lambda item: _parameters(item).get("ranks", float("inf")))


@pytest.fixture(scope="session")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[int, CaseJob]]:
    jobs: dict[int, CaseJob] = {}
    yield jobs
    for job in jobs.values():
        job.end()


@pytest.fixture
def run_case(
    request: pytest.FixtureRequest,
    case: str,
    ranks: int,
    jobs: dict[int, CaseJob],
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[[], None]:
    """Runs the case on so many ranks, in the job of all chosen cases for that number."""

    def run() -> None:
        if ranks not in jobs:
            chosen = [
                (Path(item.path).stem, str(parameters["case"]))
                for item in request.session.items
                if (parameters := _parameters(item)).get("ranks") == ranks
            ]
            jobs[ranks] = CaseJob(chosen, ranks, tmp_path_factory.mktemp(f"{ranks}ranks"))
        outcome = jobs[ranks].outcome(request.path.stem, case)
        if outcome.state == "skipped":
            pytest.skip(outcome.text)
        if outcome.state == "failed":
            pytest.fail(outcome.text, pytrace=False)

    return run
