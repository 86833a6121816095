"""What the scripts of this folder share: who the process is, how processes meet, and memory and streams of Penny's CUDA runtime."""

import ctypes
import os
import pathlib
import time
from collections.abc import Callable

RANK = int(os.environ["TEST_RANK"])
RANKS = int(os.environ["TEST_RANKS"])
CUDA = ctypes.CDLL(os.environ["TEST_CUDART"], mode=ctypes.RTLD_GLOBAL)
CUDA.cudaMemcpy.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
CUDA.cudaStreamSynchronize.argtypes = [ctypes.c_void_p]
DEFAULT_KIND = 4  # cudaMemcpyDefault


def shared(make: Callable[[], bytes], name: str = "id") -> bytes:
    """Bytes that rank 0 makes and all ranks get."""
    path = pathlib.Path(os.environ["TEST_DIR"], name)
    if RANK == 0:
        unfinished = path.with_suffix(".new")
        unfinished.write_bytes(make())
        unfinished.rename(path)
    while not path.exists():
        time.sleep(0.001)
    return path.read_bytes()


def succeeded(result: int) -> None:
    assert result == 0, f"CUDA's error {result}"


def stream() -> int:
    made = ctypes.c_void_p()
    succeeded(CUDA.cudaStreamCreate(ctypes.byref(made)))
    return made.value


def synchronize(at: int) -> None:
    succeeded(CUDA.cudaStreamSynchronize(at))


def to_device(numbers: list[float]) -> int:
    """The address of memory of the CUDA runtime that holds these as float32."""
    host, made = (ctypes.c_float * len(numbers))(*numbers), ctypes.c_void_p()
    succeeded(CUDA.cudaMalloc(ctypes.byref(made), ctypes.sizeof(host)))
    succeeded(CUDA.cudaMemcpy(made, host, ctypes.sizeof(host), DEFAULT_KIND))
    return made.value


def to_host(at: int, count: int) -> list[float]:
    host = (ctypes.c_float * count)()
    succeeded(CUDA.cudaMemcpy(host, at, ctypes.sizeof(host), DEFAULT_KIND))
    return list(host)
