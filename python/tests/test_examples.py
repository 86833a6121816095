"""Every example runs on two ranks under torchrun, at a small size, and prints what it promises."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

from in_turn import run_in_turn

pytest.importorskip("torch", reason="the examples need torch: pip install 'penny[torch]'")

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
SMALL = ["--layers", "2", "--hidden", "64", "--tokens", "6"]


# Every start of an example that a test below looks at; those of the Llama need transformers and accelerate.
LLAMA = [
    ["tp_llama.py", *SMALL, "--rounds", "1", "--json", *way]
    for way in ([], ["--hand-written", "--heap"], ["--backend", "gloo"])
]
MACHINES = ["fabric_what_if.py", *SMALL, "--machines", "dgx-h100", "dgx-h100", "t3000"]
DIGITS = [["ddp_digits.py", *way] for way in (["--heap"], ["--backend", "gloo"])]
GPT = [
    ["char_gpt.py", "--steps", "20", "--width", "32", "--layers", "2", "--bucket-mib", "0.02", "--json", *way]
    for way in ([], ["--no-overlap"], ["--backend", "gloo"])
]


def there_is_a_llama() -> bool:
    return all(find_spec(name) for name in ("transformers", "accelerate"))


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> Callable[[list[str]], str]:
    """Tells what an example prints. All are run at the first question.

    On a loaded machine a process of torch's own gloo backend can abort while the interpreter ends, when all is done and printed
    (pytorch/pytorch#179291), so only what it has printed counts.
    """
    starts = [*DIGITS, *GPT, *([*LLAMA, MACHINES] if there_is_a_llama() else [])]
    programs = [[str(EXAMPLES / script), *options] for script, *options in starts]
    outcomes = run_in_turn(programs, tmp_path_factory.mktemp("examples"))

    def printed(start: list[str]) -> str:
        if start not in starts:
            pytest.skip("the Llama needs transformers and accelerate")
        outcome = outcomes[starts.index(start)]
        well = outcome.statuses == [0, 0] or ("gloo" in start and outcome.stdout)
        assert well, f"{outcome.statuses}\n{outcome.stdout}{outcome.stderr}"
        return outcome.stdout

    return printed


Printed = Callable[[list[str]], str]


def test_digits_are_learnt_and_shareable_memory_and_gloo_learn_the_same_bits(printed: Printed) -> None:
    fingerprints = set()
    for start in DIGITS:
        text = printed(start)
        right = re.search(r"held out: \d+ of 359 right \(([\d.]+) %\)", text)
        assert right and float(right[1]) > 95, text
        assert "the networks of all ranks are the same" in text
        fingerprints.update(re.findall(r"fingerprint: (\w{16})", text))
    assert len(fingerprints) == 1, fingerprints


def test_a_llama_decodes_the_same_tokens_by_plan_by_hand_in_shareable_memory_and_by_gloo(
    printed: Printed,
) -> None:
    by_plan, by_hand, by_gloo = (json.loads(printed(start)) for start in LLAMA)
    assert by_plan["same"] and len(by_plan["ids"]) == 6
    assert by_plan["ids"] == by_hand["ids"] == by_gloo["ids"]
    # Each of the two layers all-reduces twice a token.
    assert by_plan["all_reduces_per_token"] == by_hand["all_reduces_per_token"] == 4


def test_a_small_gpt_learns_the_same_whether_its_gradients_are_reduced_meanwhile_or_at_once(
    printed: Printed,
) -> None:
    reports = [json.loads(printed(start)) for start in GPT]
    assert reports[0]["last_loss"] < reports[0]["first_loss"]
    assert all(report["last_loss"] == pytest.approx(reports[0]["last_loss"], rel=1e-3) for report in reports)


def test_machines_that_are_not_here_are_compared_and_equal_runs_tell_equal_times(printed: Printed) -> None:
    text = printed(MACHINES)
    assert "a token on 2 ranks: 4 all-reduces, 1024 bytes" in text
    assert "ids on all machines the same" in text
    times = re.findall(
        r"^(.*): ([\d.]+) us a token, [\d.]+ us an all-reduce, [\d.]+ times dgx-h100$", text, re.M
    )
    assert [machine for machine, _ in times] == ["dgx-h100", "dgx-h100", "t3000"]
    assert times[0] == times[1] and 0 < float(times[0][1]) != float(times[2][1])
