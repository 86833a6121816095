"""Torch's own tests of torch.distributed, as its wheel has them, on 3 ranks that ask for gloo.

Prints a line for each test that ran: its name and `ok`, or what failed.
"""

from __future__ import annotations

import os
import sys
import tempfile
import unittest

FOLDER = tempfile.TemporaryDirectory()
# The tests read these when they are imported.
os.environ |= {
    "BACKEND": "gloo",
    "WORLD_SIZE": "3",
    "TEMP_DIR": FOLDER.name,
    "INIT_METHOD": f"file://{FOLDER.name}/store",
}

from torch.testing._internal.distributed import distributed_test  # noqa: E402

import torch  # noqa: E402

# Torch's lists of the backends whose ranges in profiles are called after them and end on another thread. Penny's are called
# penny:all_reduce, and those of a blocking call end in its own thread.
distributed_test.PROFILING_SUPPORTED_BACKENDS.clear()
distributed_test.SEND_RECV_PROFILING_SUPPORTED_BACKENDS.clear()


class OnThreeRanks(distributed_test.TestDistBackend, distributed_test.DistributedTest._DistTestBase):
    def setUp(self) -> None:
        super().setUp()
        # Forked, not spawned: they need not import torch again, which takes most of a test's time.
        self._start_processes(torch.multiprocessing.get_context("fork").Process)


class Told(unittest.TestResult):
    """Prints how each test ended."""

    def addSuccess(self, test: unittest.TestCase) -> None:
        print(test._testMethodName, "ok", flush=True)

    def addError(self, test: unittest.TestCase, error: object) -> None:
        super().addError(test, error)  # type: ignore[arg-type]
        print(test._testMethodName, self.errors[-1][1].strip().splitlines()[-1], flush=True)

    def addFailure(self, test: unittest.TestCase, error: object) -> None:
        super().addFailure(test, error)  # type: ignore[arg-type]
        print(test._testMethodName, self.failures[-1][1].strip().splitlines()[-1], flush=True)


if __name__ == "__main__":
    loader = unittest.TestLoader()
    if len(sys.argv) > 1:
        loader.testNamePatterns = sys.argv[1:]
    loader.loadTestsFromTestCase(OnThreeRanks).run(Told())
