"""The filter of system calls, run by an interpreter of BPF written for this test."""

import errno

import pytest

from rlcomp.sandbox import linux, seccomp
from rlcomp.sandbox.seccomp import filter_program
from rlcomp.sandbox.syscalls import allowed_calls, conditional_calls, file_changing_calls

ALLOW, KILL = 0x7FFF0000, 0x80000000
REFUSED, ABSENT = 0x50000 + errno.EPERM, 0x50000 + errno.ENOSYS
ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}


def decide(program, machine, number, *arguments, arch=None):
    """What the kernel would do: linux/filter.h, section "seccomp" of its documentation."""
    words = {0: number, 4: arch if arch is not None else ARCH[machine]}
    for index, argument in enumerate(arguments):
        words[16 + 8 * index] = argument & 0xFFFFFFFF
    at, held = 0, 0
    while True:
        code, yes, no, operand = program[at]
        at += 1
        if code == 0x06:
            return operand
        if code == 0x20:
            held = words.get(operand, 0)
        else:
            taken = {0x15: held == operand, 0x35: held >= operand, 0x45: bool(held & operand)}[code]
            at += yes if taken else no


STRICT = {"fork": False, "jailed": True, "process": 77}
FORKING = {"fork": True, "jailed": True, "process": 77}
PORTABLE = {"fork": False, "jailed": False, "process": 77}
THREAD = 0x3D0F00  # the flags of a thread of glibc
# Numbers by hand, from the tables of the kernel: x86-64, aarch64.
READ, OPENAT, SOCKET, PTRACE, UNSHARE, MEMFD = (
    (0, 63),
    (257, 56),
    (41, 198),
    (101, 117),
    (272, 97),
    (319, 279),
)
CLONE, KILL_CALL, TGKILL, FCNTL, IOCTL, PRLIMIT = (
    (56, 220),
    (62, 129),
    (234, 131),
    (72, 25),
    (16, 29),
    (302, 261),
)
PRCTL, FCHMODAT, EXECVE, CLONE3, TKILL = (157, 167), (268, 53), (59, 221), (435, 435), (200, 130)
IO_URING, PIDFD_SIGNAL, SETSID, UNLINKAT = (425, 425), (424, 424), (112, 157), (263, 35)


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
@pytest.mark.parametrize(
    ("call", "arguments", "strict", "forking", "portable"),
    [
        (READ, (), ALLOW, ALLOW, ALLOW),
        (OPENAT, (), ALLOW, ALLOW, ALLOW),
        (SOCKET, (1, 1), REFUSED, REFUSED, REFUSED),
        (PTRACE, (), REFUSED, REFUSED, REFUSED),
        (UNSHARE, (), REFUSED, REFUSED, REFUSED),
        (MEMFD, (), REFUSED, REFUSED, REFUSED),
        (TKILL, (77, 9), REFUSED, REFUSED, REFUSED),
        (CLONE3, (), ABSENT, ABSENT, ABSENT),
        (IO_URING, (), ABSENT, ABSENT, ABSENT),
        (PIDFD_SIGNAL, (), ABSENT, ABSENT, ABSENT),
        (CLONE, (THREAD,), ALLOW, ALLOW, REFUSED),
        (CLONE, (0x11,), REFUSED, ALLOW, REFUSED),
        (CLONE, (THREAD | 0x10000000,), REFUSED, REFUSED, REFUSED),  # a user namespace
        (CLONE, (0x11 | 0x02000000,), REFUSED, REFUSED, REFUSED),  # of cgroups
        (CLONE, (0x11 | 0x00020000,), REFUSED, REFUSED, REFUSED),  # of mounts
        (CLONE, (0x11 | 0x8000,), REFUSED, REFUSED, REFUSED),  # a child of its parent's
        (EXECVE, (), REFUSED, ALLOW, REFUSED),
        (SETSID, (), REFUSED, ALLOW, REFUSED),
        (KILL_CALL, (77, 9), ALLOW, ALLOW, ALLOW),
        (KILL_CALL, (78, 9), ALLOW, ALLOW, REFUSED),
        (KILL_CALL, (-1, 9), ALLOW, ALLOW, REFUSED),
        (KILL_CALL, (0, 9), ALLOW, ALLOW, REFUSED),
        (TGKILL, (77, 77, 6), ALLOW, ALLOW, ALLOW),
        (TGKILL, (78, 78, 6), ALLOW, ALLOW, REFUSED),
        (PRLIMIT, (0, 7), ALLOW, ALLOW, ALLOW),
        (PRLIMIT, (1, 7), REFUSED, REFUSED, REFUSED),
        (FCNTL, (5, 3), ALLOW, ALLOW, ALLOW),
        (FCNTL, (5, 8), REFUSED, REFUSED, REFUSED),  # F_SETOWN
        (FCNTL, (5, 10), REFUSED, REFUSED, REFUSED),  # F_SETSIG
        (FCNTL, (5, 15), REFUSED, REFUSED, REFUSED),  # F_SETOWN_EX
        (FCNTL, (5, 1031), REFUSED, REFUSED, REFUSED),  # F_SETPIPE_SZ
        (IOCTL, (0, 0x5401), ALLOW, ALLOW, ALLOW),
        (IOCTL, (0, 0x5412), REFUSED, REFUSED, REFUSED),  # TIOCSTI
        (IOCTL, (0, 0x8901), REFUSED, REFUSED, REFUSED),  # FIOSETOWN
        (PRCTL, (15,), ALLOW, ALLOW, ALLOW),  # a name
        (PRCTL, (22, 2), REFUSED, REFUSED, REFUSED),
        (FCHMODAT, (), ALLOW, ALLOW, REFUSED),
        (UNLINKAT, (), ALLOW, ALLOW, REFUSED),
    ],
)
def test_a_call_is_decided_by_its_number_and_arguments(
    machine, call, arguments, strict, forking, portable
):
    number = call[machine == "aarch64"]

    for settings, expected in ((STRICT, strict), (FORKING, forking), (PORTABLE, portable)):
        assert decide(filter_program(machine, **settings), machine, number, *arguments) == expected


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_calls_of_another_table_kill(machine):
    program = filter_program(machine, **STRICT)

    assert decide(program, machine, 0, arch=0x40000003) == KILL  # 32 bit
    assert decide(program, machine, 0x40000000) == KILL  # x32
    assert decide(program, machine, 0x40000001) == KILL
    assert decide(program, machine, 0x3FFFFFFF) == ABSENT
    assert decide(program, machine, 423) == REFUSED


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_no_number_stands_twice(machine):
    numbers = [
        n
        for table in (allowed_calls, file_changing_calls, conditional_calls)
        for n in table(machine).values()
    ]

    assert len(numbers) == len(set(numbers))


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_a_filter_is_as_short_as_the_kernel_takes(machine):
    for settings in (STRICT, FORKING, PORTABLE):
        program = filter_program(machine, **settings)
        assert len(program) < 4096
        assert all(0 <= yes < 256 and 0 <= no < 256 for _, yes, no, _ in program)


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_arguments_that_are_allowed_and_no_others(machine):
    program = filter_program(machine, **STRICT)

    def taken(call, place):
        number = call[machine == "aarch64"]
        # A filter compares with its constants: nothing changes but at one of them.
        edges = {max(constant + near, 0) for *_, constant in program for near in (-1, 0, 1)}
        tries = {value: [0] * place + [value] for value in sorted(edges | {*range(64)})}
        return [
            v for v, words in tries.items() if decide(program, machine, number, *words) == ALLOW
        ]

    # DUPFD, GETFD, SETFD, GETFL, SETFL, three locks, DUPFD_CLOEXEC, GETPIPE_SZ.
    assert taken(FCNTL, 1) == [0, 1, 2, 3, 4, 5, 6, 7, 1030, 1032]
    # TCGETS, TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX.
    assert taken(IOCTL, 1) == [0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451]
    assert taken(PRCTL, 0) == [15, 16]
    assert taken(PRLIMIT, 0) == [0]


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_no_namespace_is_made_by_a_clone(machine):
    program = filter_program(machine, **FORKING)
    # NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET; the numbers of linux/sched.h.
    flags = [0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000]

    for flag in flags:
        assert decide(program, machine, CLONE[machine == "aarch64"], flag | 17) == REFUSED
    assert flags[:4] == [linux.NEWNS, linux.NEWCGROUP, linux.NEWUTS, linux.NEWIPC]
    assert flags[4:] == [linux.NEWUSER, linux.NEWPID, linux.NEWNET]


def test_a_filter_leaves_no_word_to_chance():
    for machine in ("x86_64", "aarch64"):
        for settings in (STRICT, FORKING, PORTABLE):
            jumps = {(code, yes, no) for code, yes, no, _ in filter_program(machine, **settings)}
            # Loads and returns do not jump; the kernel takes no others.
            assert {jump for jump in jumps if jump[0] in (0x06, 0x20)} <= {
                (0x06, 0, 0),
                (0x20, 0, 0),
            }


def test_what_is_allowed_is_a_short_list():
    assert len(allowed_calls("x86_64")) < 110 > len(allowed_calls("aarch64"))
    assert seccomp.ALLOW == ALLOW
