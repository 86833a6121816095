"""What can be passed for a buffer: what each kind is taken for, and the sentence about what cannot be."""

import array
import ctypes

import numpy as np
import pytest

import penny
from penny import DataType
from penny.buffers import resolve

torch = pytest.importorskip("torch")


class WithDLPack:
    """A tensor of a library that is known for its protocol only."""

    def __init__(self, tensor, old=False):
        self.tensor = tensor
        self.old = old

    def __dlpack__(self, **options):
        if self.old and options:
            raise TypeError("no such argument")
        return self.tensor.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()


class WithArrayInterface:
    """The same for __array_interface__."""

    def __init__(self, values):
        self.values = values
        self.__array_interface__ = values.__array_interface__


BUFFERS = [
    (bytearray(6), 6, DataType.UINT8),
    (array.array("h", [1, 2]), 4, DataType.INT16),
    (array.array("l", [1, 2]), 16, DataType.INT64),
    (memoryview(bytearray(8)).cast("I"), 8, DataType.UINT32),
    ((ctypes.c_double * 3)(), 24, DataType.FLOAT64),
    (np.zeros((2, 3), "f4"), 24, DataType.FLOAT32),
    (np.zeros(4, "f2"), 8, DataType.FLOAT16),
    (np.zeros(4, "?"), 4, DataType.BOOL),
    (np.array(1.0), 8, DataType.FLOAT64),
    (np.zeros(0, "i8"), 0, DataType.INT64),
    (torch.zeros(3, dtype=torch.bfloat16), 6, DataType.BFLOAT16),
    (torch.zeros(3, dtype=torch.float8_e4m3fn), 3, DataType.FLOAT8E4M3),
    (torch.zeros(3, dtype=torch.float8_e5m2), 3, DataType.FLOAT8E5M2),
    (torch.zeros(2, 2, requires_grad=True), 16, DataType.FLOAT32),
    (torch.nn.Parameter(torch.zeros(2)), 8, DataType.FLOAT32),
    (WithDLPack(torch.zeros(2, 3)), 24, DataType.FLOAT32),
    (WithDLPack(torch.zeros(3, dtype=torch.bfloat16)), 6, DataType.BFLOAT16),
    (WithDLPack(torch.zeros(3, dtype=torch.float8_e5m2)), 3, DataType.FLOAT8E5M2),
    (WithDLPack(np.zeros(3, "u2"), old=True), 6, DataType.UINT16),
    (WithArrayInterface(np.zeros((2, 2), "i4")), 16, DataType.INT32),
    (np.zeros(2, complex), 32, None),
    (np.zeros(2, ">f4"), 8, None),
]


@pytest.mark.parametrize("buffer, nbytes, dtype", BUFFERS, ids=lambda value: type(value).__name__)
def test_a_buffer_is_taken_for_what_it_is(buffer, nbytes, dtype):
    _, length, element, writable, _ = resolve(buffer)
    assert (length, element, writable) == (nbytes, dtype, True)


@pytest.mark.parametrize(
    "buffer",
    [
        b"abc",
        np.frombuffer(b"abc", "u1"),
        memoryview(b"abc"),
        WithArrayInterface(np.frombuffer(b"abc", "u1")),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_read_only_is_known_to_be(buffer):
    address, length, _, writable, _ = resolve(buffer)
    assert ctypes.string_at(address, length) == b"abc" and not writable


def test_the_same_memory_has_the_same_address_however_it_is_passed():
    values = np.arange(4, dtype="f4")
    tensor = torch.from_numpy(values)
    ways = [
        values,
        tensor,
        memoryview(values),
        WithDLPack(tensor),
        WithDLPack(values),
        WithArrayInterface(values),
    ]
    assert {resolve(way)[0] for way in ways} == {values.ctypes.data}
    assert resolve(values[1:3])[0] == values.ctypes.data + 4


@pytest.mark.parametrize(
    "buffer",
    [
        np.zeros((4, 4))[:, 1],
        np.zeros((4, 3)).T,
        memoryview(bytearray(9))[::2],
        torch.zeros(4, 3).t(),
        WithDLPack(torch.zeros(4, 3).t()),
        WithArrayInterface(np.zeros((4, 3)).T),
    ],
    ids=lambda value: type(value).__name__,
)
def test_gaps_between_elements_are_refused(buffer):
    with pytest.raises(
        penny.InvalidArgumentError, match="do not follow one another in memory: pass a contiguous"
    ):
        resolve(buffer)


def test_what_is_no_buffer_is_a_type_error_that_lists_what_is():
    with pytest.raises(TypeError, match=r"list is no buffer: pass a bytearray, .*torch tensor"):
        resolve([1.0, 2.0])


def test_a_tensor_on_another_device_is_refused():
    with pytest.raises(penny.InvalidArgumentError, match=r"lies on meta, .*tensor\.cpu\(\)"):
        resolve(torch.zeros(3, device="meta"))


def test_a_buffer_that_is_kept_cannot_be_resized():
    values = bytearray(8)
    kept = penny.Buffer(values)
    with pytest.raises(BufferError):
        values.extend(b"more")
    del kept
    values.extend(b"more")


def test_names_of_element_types_are_those_of_numpy_and_torch():
    from penny.datatypes import data_type

    for name in ("float32", np.float32, np.dtype("f4"), torch.float32, DataType.FLOAT32, "float"):
        assert data_type(name) is DataType.FLOAT32, name
    assert data_type("bfloat16") is data_type(torch.bfloat16) is DataType.BFLOAT16
    assert data_type(torch.float8_e4m3fn) is DataType.FLOAT8E4M3
    assert data_type(np.bool_) is data_type("bool") is data_type(bool) is DataType.BOOL
    with pytest.raises(
        penny.InvalidArgumentError, match="complex64.* is no element type of Penny; those are int8"
    ):
        data_type("complex64")


def test_torch_tensors_are_reduced_in_their_own_types():
    with penny.init_all(1)[0] as comm:
        for dtype in (torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2, torch.float16):
            values = torch.tensor([-2.0, 1.0]).to(dtype)
            out = torch.zeros(2, dtype=dtype)
            assert comm.all_reduce(values, out, "square_add") is out
            assert out.float().tolist() == [4.0, 1.0], dtype


def test_a_dtype_that_is_passed_takes_the_bytes_for_its_own():
    with penny.init_all(1)[0] as comm:
        values = bytearray(np.float32([1, 2, 3]).tobytes())
        comm.all_reduce(values, op="square_add", dtype="float32")
        assert np.frombuffer(values, "f4").tolist() == [1, 4, 9]
        moved = np.zeros(2, complex)
        comm.all_gather(np.array([1j, 2]), moved, dtype="uint8")
        assert moved.tolist() == [1j, 2]
        with pytest.raises(
            penny.InvalidArgumentError, match=r"send have a type that Penny does not know: pass dtype="
        ):
            comm.all_reduce(moved)
        with pytest.raises(
            penny.InvalidArgumentError, match="send has 5 bytes, but must have 1 elements of float32"
        ):
            comm.all_reduce(bytearray(5), dtype="float32")
