"""What torch calls when it is imported, in every program of an environment in which Penny is installed.

It is no module of the package, because importing that loads the library, which only programs of Penny need.
"""

import os


def torch() -> None:
    """Puts Penny in the place of the backend that PENNY_TORCH_REPLACE names, if it is set."""
    named = os.environ.get("PENNY_TORCH_REPLACE")
    if named:
        from penny.torch.replacing import replace

        replace(named)
