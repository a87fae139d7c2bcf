"""A Python as on other systems: run first, it takes away what only Linux, or only Unix, has.

`python -c "import elsewhere; …"`: macOS lacks some of these names, Windows all of them. Parts of
the standard library ask which system they are on and take such names for granted here; they are
imported before. What is missed afterwards, epicrec asked for. filelock finds no lock of the system
here and works by files of its own.
"""

import asyncio  # noqa: F401
import importlib.abc
import multiprocessing.util  # noqa: F401
import os
import signal
import sys

MODULES = {"fcntl", "resource", "termios", "tty", "pty", "pwd", "grp", "syslog", "posix"}
NAMES = {
    os: "sched_getaffinity sched_setaffinity fork forkpty getuid geteuid getgid getegid nice "
    "sysconf sysconf_names setsid killpg getpgid chown fchown lchown lockf posix_fadvise "
    "posix_fallocate pread pwrite statvfs mkfifo mknod sync O_CLOEXEC O_DIRECTORY "
    "O_NOFOLLOW O_NONBLOCK",
    signal: "SIGKILL SIGHUP SIGQUIT SIGUSR1 SIGUSR2 SIGALRM SIGCHLD alarm setitimer "
    "pthread_sigmask",
}


class Hidden(importlib.abc.MetaPathFinder):
    """Says of hidden modules that they are not there."""

    def find_spec(self, name, _path=None, _target=None):
        if name in MODULES:
            raise ModuleNotFoundError(f"No module named {name!r} on this system", name=name)


for name in MODULES:
    sys.modules.pop(name, None)
sys.meta_path.insert(0, Hidden())
for module, names in NAMES.items():
    for name in names.split():
        if hasattr(module, name):
            delattr(module, name)
