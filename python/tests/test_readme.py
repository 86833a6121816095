"""The program in the package's README prints what is promised below it, on numpy and nothing else."""

import re

from on_ranks import ROOT, run


def test_the_readmes_program_prints_what_it_promises(tmp_path):
    text = (ROOT / "python" / "README.md").read_text()
    program = re.search(r"```python\n(.*?)```", text, re.DOTALL).group(1)
    promised = re.search(r"prints `(.*?)`", text).group(1)
    script = tmp_path / "example.py"
    script.write_text(program)
    assert run(2, [str(script)]) == f"{promised}\n"


def test_every_name_of_the_package_is_in_its_readme_or_has_a_sentence():
    import penny

    for name in penny.__all__:
        value = getattr(penny, name)
        assert name == "lib" or (value.__doc__ or "").strip(), f"penny.{name} says nothing of itself"
