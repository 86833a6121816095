"""Prepares what every process that a test starts inherits: where the package of this checkout is, and that signals count."""

import os
import signal
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src"
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(SOURCE), os.environ.get("PYTHONPATH")]))

# A shell without job control has what it starts in the background ignore these, and children inherit that.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGQUIT) == signal.SIG_IGN:
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
