"""Numbers of the system calls that a program may make on x86-64 and on aarch64.

All other calls are refused, including calls of later kernels. Among the refused calls are sockets,
ptrace, another process's memory or limits, mounts, namespaces, keys, bpf, perf, io_uring,
userfaultfd, memfd, SysV and POSIX queues, pidfds, timers that signal others.

Source:
    ``asm/unistd_64.h`` and ``asm-generic/unistd.h`` of Linux 6.1.
"""

from __future__ import annotations

import platform

# Name, number on x86-64, number on aarch64; "-": the machine does not have the call.
_ALLOWED = """
read 0 63          write 1 64         pread64 17 67      pwrite64 18 68     readv 19 65
writev 20 66       preadv 295 69      pwritev 296 70     open 2 -           openat 257 56
close 3 57         stat 4 -           fstat 5 80         lstat 6 -
newfstatat 262 79  statx 332 291      lseek 8 62         statfs 137 43      fstatfs 138 44
mmap 9 222         mprotect 10 226    munmap 11 215      mremap 25 216      madvise 28 233
msync 26 227       brk 12 214         rt_sigaction 13 134
rt_sigprocmask 14 135                 rt_sigreturn 15 139                   rt_sigpending 127 136
rt_sigsuspend 130 133                 rt_sigtimedwait 128 137               sigaltstack 131 132
access 21 -        faccessat 269 48   faccessat2 439 439 pipe 22 -          pipe2 293 59
select 23 -        pselect6 270 72    poll 7 -           ppoll 271 73       epoll_create1 291 20
epoll_ctl 233 21   epoll_wait 232 -   epoll_pwait 281 22 eventfd2 290 19    sched_yield 24 124
dup 32 23          dup2 33 -          dup3 292 24        pause 34 -         nanosleep 35 101
clock_nanosleep 230 115               clock_gettime 228 113                 clock_getres 229 114
gettimeofday 96 169                   time 201 -         times 100 153      getitimer 36 102
setitimer 38 103   alarm 37 -         getpid 39 172      getppid 110 173    gettid 186 178
getpgid 121 155    getpgrp 111 -      getsid 124 156     getuid 102 174     geteuid 107 175
getgid 104 176     getegid 108 177    getgroups 115 158  getresuid 118 148  getresgid 120 150
getcpu 309 168     uname 63 160       sysinfo 99 179     getrusage 98 165   getrlimit 97 163
getpriority 140 141                   sched_getaffinity 204 123
exit 60 93         exit_group 231 94  restart_syscall 219 128               setrlimit 160 164
wait4 61 260       waitid 247 95      fsync 74 82        fdatasync 75 83
ftruncate 77 46    fallocate 285 47   fadvise64 221 223  copy_file_range 326 285
sendfile 40 71     getdents 78 -      getdents64 217 61  getcwd 79 17       chdir 80 49
fchdir 81 50       readlink 89 -      readlinkat 267 78  umask 95 166       futex 202 98
set_tid_address 218 96                set_robust_list 273 99                rseq 334 293
getrandom 318 278  arch_prctl 158 -
"""

# Allowed only if all files that a program can reach are its own: landlock does not cover all of
# these calls.
_FILE_CHANGING = """
truncate 76 45     creat 85 -         rename 82 -        renameat 264 38    renameat2 316 276
mkdir 83 -         mkdirat 258 34     rmdir 84 -         link 86 -          linkat 265 37
unlink 87 -        unlinkat 263 35    symlink 88 -       symlinkat 266 36   chmod 90 -
fchmod 91 52       fchmodat 268 53    utimensat 280 88   flock 73 32
"""

# Allowed only with certain arguments (seccomp.py), or only for programs that may fork.
_CONDITIONAL = """
clone 56 220       fcntl 72 25        ioctl 16 29        prctl 157 167      prlimit64 302 261
kill 62 129        tgkill 234 131     fork 57 -          vfork 58 -         execve 59 221
setsid 112 157     setpgid 109 154
"""

# Calls of the sandbox itself that glibc has no function for.
_SANDBOX_CALLS = """
pivot_root 155 41  mount_setattr 442 442                 landlock_create_ruleset 444 444
landlock_add_rule 445 445             landlock_restrict_self 446 446
"""

# Column of each machine in the tables, and its number for seccomp (linux/audit.h).
_MACHINES = {"x86_64": (1, 0xC000003E), "aarch64": (2, 0xC00000B7)}


def machine() -> str:
    """Return the name of this machine; raise ``OSError`` if the tables do not have it."""
    name = platform.machine()
    if name not in _MACHINES:
        raise OSError(f"no system call numbers for the machine {name!r}")
    return name


def audit_arch(name: str) -> int:
    """Return the value of ``seccomp_data.arch`` on a machine."""
    return _MACHINES[name][1]


def allowed_calls(name: str) -> dict[str, int]:
    """Return the numbers on a machine of the calls that are always allowed, by name.

    Examples:
        >>> arm = allowed_calls("aarch64")
        >>> allowed_calls("x86_64")["openat"], arm["openat"], "open" in arm
        (257, 56, False)
    """
    return _parse(_ALLOWED, name)


def file_changing_calls(name: str) -> dict[str, int]:
    """Return the numbers of the calls that change files other than by writing, by name."""
    return _parse(_FILE_CHANGING, name)


def conditional_calls(name: str) -> dict[str, int]:
    """Return the numbers of the calls that are allowed under conditions, by name."""
    return _parse(_CONDITIONAL, name)


def sandbox_calls(name: str) -> dict[str, int]:
    """Return the numbers of the calls that the sandbox itself makes, by name."""
    return _parse(_SANDBOX_CALLS, name)


def _parse(table: str, machine_name: str) -> dict[str, int]:
    column = _MACHINES[machine_name][0]
    words = table.split()
    rows = (words[start : start + 3] for start in range(0, len(words), 3))
    return {row[0]: int(row[column]) for row in rows if row[column] != "-"}
