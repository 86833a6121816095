"""Ctrl-C in calls that wait: KeyboardInterrupt soon, whatever the main thread waits for, and a process that ends.

Each case is a program of its own, run as one of two ranks of which the other does not do its part. It prints
`waiting`, gets a real SIGINT a moment later, and prints how the wait ended. The limits are guards against hanging.
"""

from __future__ import annotations

import os
import signal
import subprocess
import textwrap
import time

import pytest

import on_ranks

# Within this time the interrupted process must have ended. It takes a quarter of a second on an idle machine.
GUARD = 30

HEAD = """
import os, signal, sys, threading, time
import numpy
import penny
values = numpy.ones(1000, "float32")

def waiting():
    print("waiting", flush=True)
"""

# How the last line of a case ends.
TAIL = """
except KeyboardInterrupt:
    print("KeyboardInterrupt", flush=True)
    sys.exit(3)
print("went on", flush=True)
"""

# What the rank waits in, with `comm`.
WAITS = {
    "all_reduce": "waiting(); comm.all_reduce(values)",
    "large all_reduce": "big = penny.zeros(10_000_000); waiting(); comm.all_reduce(big)",
    "barrier": "waiting(); comm.barrier()",
    "send": "big = numpy.ones(10_000_000); waiting(); comm.send(big, 1)",
    "recv": "waiting(); comm.recv(values, 1)",
    "group": """
        waiting()
        with penny.group():
            comm.send(values, 1)
            comm.recv(values, 1)""",
    "split": "waiting(); comm.split(0)",
    "stream": """
        with penny.Stream() as stream:
            comm.all_reduce(values, stream=stream)
            waiting()
            stream.synchronize()""",
    "event": """
        with penny.Stream() as stream:
            comm.all_reduce(values, stream=stream)
            event = penny.Event().record(stream)
            waiting()
            event.synchronize()""",
    "end of a stream": """
        stream = penny.Stream()
        comm.all_reduce(values, stream=stream)
        waiting()
        stream.destroy()""",
    "call behind a stream": """
        with penny.Stream() as stream:
            comm.all_reduce(values, stream=stream)
            waiting()
            comm.barrier()""",
    "mailbox": """
        with penny.Mailbox(comm) as mailbox:
            waiting()
            mailbox.receive()""",
    "idle mailbox": """
        with penny.Mailbox(comm) as mailbox:
            waiting()
            mailbox.idle()""",
    "symmetric heap": """
        with penny.SymmetricHeap(comm) as heap:
            word = heap.zeros(1, "uint64")
            waiting()
            word.wait_until("eq", 1)""",
    "semaphore": """
        with penny.SymmetricHeap(comm) as heap:
            with penny.Semaphore(heap) as semaphore:
                waiting()
                semaphore.wait()""",
    "window": """
        with comm.window(penny.zeros(10)) as window:
            waiting()
            window.wait_signal(1)""",
    # The thread's call fails, too; a traceback of it could come into the middle of a line.
    "thread": """
        threading.excepthook = lambda failure: None
        thread = threading.Thread(target=lambda: comm.all_reduce(values))
        thread.start()
        time.sleep(0.2)
        waiting()
        thread.join()""",
    "future": """
        from concurrent.futures import ThreadPoolExecutor
        pool = ThreadPoolExecutor()
        future = pool.submit(comm.all_reduce, values)
        time.sleep(0.2)
        waiting()
        future.result()""",
}
# What the other rank must do for the first one to come to its wait.
PARTNERS = {
    "mailbox": "mailbox = penny.Mailbox(comm)",
    "idle mailbox": "mailbox = penny.Mailbox(comm)",
    "symmetric heap": "heap = penny.SymmetricHeap(comm); word = heap.zeros(1, 'uint64')",
    "semaphore": "heap = penny.SymmetricHeap(comm); semaphore = penny.Semaphore(heap)",
    "window": "window = comm.window(penny.zeros(10))",
}


def program(body: str) -> list[str]:
    return ["-c", HEAD + "try:\n" + textwrap.indent(textwrap.dedent(body), "    ") + TAIL]


def start(rank: int, job: str, arguments: list[str], **variables: str) -> subprocess.Popen[str]:
    return on_ranks.start(rank, 2, job, arguments, PENNY_TIMEOUT="600", **variables)


def read_until(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdout is not None
    said = []
    while True:
        said.append(process.stdout.readline())
        assert said[-1], "".join(said)
        if said[-1].strip() == line:
            return


def interrupt(process: subprocess.Popen[str]) -> tuple[str, int]:
    """Sends SIGINT a moment after the process has begun to wait; what it said then, and its exit code."""
    read_until(process, "waiting")
    time.sleep(0.5)
    begin = time.monotonic()
    process.send_signal(signal.SIGINT)
    try:
        said, _ = process.communicate(timeout=GUARD)
    except subprocess.TimeoutExpired:
        process.kill()
        pytest.fail(f"still waiting {GUARD} s after Ctrl-C: {process.communicate()[0]}")
    print(f"ended {time.monotonic() - begin:.2f} s after Ctrl-C")
    return said, process.returncode


@pytest.mark.parametrize("name", WAITS)
def test_a_wait_ends_with_a_keyboard_interrupt(name: str) -> None:
    job = on_ranks.new_job()
    body = "with penny.init() as comm:" + textwrap.indent("\n" + textwrap.dedent(WAITS[name]), "    ")
    partner = f"comm = penny.init()\n{PARTNERS.get(name, 'pass')}\ntime.sleep(1000)"
    first, second = start(0, job, program(body)), start(1, job, program(partner))
    try:
        said, code = interrupt(first)
        assert (said.splitlines()[-1], code) == ("KeyboardInterrupt", 3), said
    finally:
        second.kill()
        second.communicate()


def test_joining_ends_with_a_keyboard_interrupt_on_either_side_of_the_meeting() -> None:
    for rank in (0, 1):
        process = start(rank, on_ranks.new_job(), program("waiting(); penny.init()"))
        assert interrupt(process) == ("KeyboardInterrupt\n", 3)


def test_the_other_ranks_learn_at_once_who_was_interrupted() -> None:
    job = on_ranks.new_job()
    # So much that a rank's part is not over when it has arrived.
    waits = "comm = penny.init()\nvalues = numpy.ones(1_000_000)\nwaiting()\ncomm.all_reduce(values)"
    first = on_ranks.start(0, 3, job, program(waits), PENNY_TIMEOUT="600")
    second = on_ranks.start(1, 3, job, program(waits), PENNY_TIMEOUT="600")
    third = on_ranks.start(2, 3, job, program("comm = penny.init()\ntime.sleep(1000)"))
    try:
        read_until(second, "waiting")
        assert interrupt(first) == ("KeyboardInterrupt\n", 3)
        said, _ = second.communicate(timeout=GUARD)
        assert "RemoteError" in said and "rank 0 (pid" in said, said
    finally:
        for process in (second, third):
            process.kill()
            process.communicate()


def test_a_handler_of_the_program_runs_during_the_wait_which_then_goes_on() -> None:
    job = on_ranks.new_job()
    body = """
        comm = penny.init()
        signal.signal(signal.SIGINT, lambda *_: print("handled", flush=True))
        waiting()
        comm.all_reduce(values)
        comm.destroy()
        print(values[0])"""
    partner = "comm = penny.init(); input(); comm.all_reduce(values); comm.destroy()"
    first = start(0, job, program(body))
    second = subprocess.Popen(
        [on_ranks.sys.executable, *program(partner)],
        env=on_ranks.environment(
            PENNY_JOB_ID=job, PENNY_RANK="1", PENNY_WORLD_SIZE="2", PENNY_LOCAL_RANK="1", PENNY_TIMEOUT="600"
        ),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    read_until(first, "waiting")
    for _ in range(2):
        first.send_signal(signal.SIGINT)
        read_until(first, "handled")
    second.communicate("\n", timeout=GUARD)
    said, _ = first.communicate(timeout=GUARD)
    assert (said, first.returncode) == ("2.0\nwent on\n", 0)


def test_an_exception_of_any_handler_comes_out_of_the_call() -> None:
    job = on_ranks.new_job()
    body = """
        def stop(*_):
            raise ValueError("from the handler")
        signal.signal(signal.SIGALRM, stop)
        comm = penny.init()
        signal.setitimer(signal.ITIMER_REAL, 0.5)
        try:
            comm.barrier()
        except ValueError as error:
            print(error, type(error.__cause__).__name__)
        print(type(comm.async_error()).__name__)
        comm.abort()"""
    first, second = (
        start(0, job, program(body)),
        start(1, job, program("comm = penny.init(); time.sleep(1000)")),
    )
    said, _ = first.communicate(timeout=GUARD)
    second.kill()
    second.communicate()
    assert said == "from the handler TimeoutError\nTimeoutError\nwent on\n"


def test_a_handler_may_abort_the_communicator_whose_call_it_interrupts() -> None:
    job = on_ranks.new_job()
    body = """
        comm = penny.init()
        signal.signal(signal.SIGINT, lambda *_: comm.abort())
        waiting()
        try:
            comm.barrier()
        except penny.RemoteError as error:
            print("this rank" in str(error))
        comm.destroy()"""
    first, second = (
        start(0, job, program(body)),
        start(1, job, program("comm = penny.init(); time.sleep(1000)")),
    )
    ended = interrupt(first)
    second.kill()
    second.communicate()
    assert ended == ("True\nwent on\n", 0)


@pytest.mark.parametrize("how", ["thread", "future"])
def test_a_program_that_ctrl_c_ends_does_not_wait_for_threads_in_calls(how: str) -> None:
    job = on_ranks.new_job()
    body = HEAD + "comm = penny.init()\n" + textwrap.dedent(WAITS[how])
    first = start(0, job, ["-c", body])
    second = start(1, job, program("comm = penny.init(); time.sleep(1000)"))
    said, code = interrupt(first)
    second.kill()
    second.communicate()
    assert code == -signal.SIGINT and "KeyboardInterrupt" in said, said


def test_penny_run_passes_ctrl_c_on_and_returns_130() -> None:
    # One write: lines of two ranks must not mix.
    body = """
        comm = penny.init()
        os.write(1, f"{os.getpid()}\\n".encode())
        if comm.rank: comm.barrier()
        else: time.sleep(1000)"""
    launcher = subprocess.Popen(
        [
            on_ranks.penny_command(),
            "run",
            "-n",
            "2",
            on_ranks.sys.executable,
            "-c",
            HEAD + textwrap.dedent(body),
        ],
        env=on_ranks.environment(PENNY_TIMEOUT="600"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert launcher.stdout is not None
    ranks = [int(launcher.stdout.readline()) for _ in range(2)]
    time.sleep(0.5)
    launcher.send_signal(signal.SIGINT)
    launcher.communicate(timeout=GUARD)
    assert launcher.returncode == 130
    assert not any(os.path.exists(f"/proc/{rank}") for rank in ranks)
