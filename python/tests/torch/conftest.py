"""Makes a pytest test of every case and number of ranks, and runs all that have a number of ranks in common as one job."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

import pytest

from launching import CaseJob


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if {"case", "ranks"} <= set(metafunc.fixturenames):
        pairs = [(case.name, ranks) for case in metafunc.module.CASES for ranks in case.ranks]
        ids = [f"{name}-{ranks} ranks" for name, ranks in pairs]
        metafunc.parametrize(("case", "ranks"), pairs, ids=ids)


def _case(item: pytest.Item) -> tuple[str, int] | None:
    """The case that a test runs and the number of ranks, if it runs one."""
    parameters = (
        item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    )
    return (parameters["case"], parameters["ranks"]) if {"case", "ranks"} <= parameters.keys() else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Cases first, fewest ranks first: then only one job is under way at a time."""
    items.sort(key=lambda item: case[1] if (case := _case(item)) else sys.maxsize)


@pytest.fixture(scope="session")
def jobs() -> Iterator[dict[int, CaseJob]]:
    """The jobs under way, by their number of ranks."""
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
    """Runs the case on `ranks` ranks, in the job of all chosen cases for that number."""

    def run() -> None:
        if ranks not in jobs:
            chosen = [
                (item.path.stem, its[0])
                for item in request.session.items
                if (its := _case(item)) and its[1] == ranks
            ]
            jobs[ranks] = CaseJob(chosen, ranks, tmp_path_factory.mktemp(f"{ranks}ranks"))
        outcome = jobs[ranks].outcome(request.path.stem, case)
        if outcome.state == "skipped":
            pytest.skip(outcome.text)
        if outcome.state == "failed":
            pytest.fail(outcome.text, pytrace=False)

    return run
