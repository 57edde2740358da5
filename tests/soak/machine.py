"""Faults of the machine: a clock that steps, a disk that is full, memory that is not given.

Clocks: a library loaded before the C library adds an offset, read from a file of each process, to the time
of day; the monotonic clock goes on, as it does when a real clock is set. Times of files stay the kernel's.
Disks: each state directory is a small file system in memory, filled by a file. Memory: the limit of address
space. The first needs a C compiler and the second the right to mount; ``missing`` says what there is not.
"""

from __future__ import annotations

import contextlib
import os
import resource
import struct
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests import needs
from tests.soak.plan import Fault

DISK_BYTES = 64 * 2**20
MEMORY_LEFT = 2 * 2**20
_SHIM = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *offset;

__attribute__((constructor)) static void attach(void) {
    const char *path = getenv("SOAK_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *found = mmap(NULL, sizeof *offset, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (found != MAP_FAILED) offset = found;
}

int clock_gettime(clockid_t id, struct timespec *at) {
    int failed = syscall(SYS_clock_gettime, id, at);
    if (!failed && offset && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) at->tv_sec += *offset;
    return failed;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone) {
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at) *at = now.tv_sec;
    return now.tv_sec;
}
"""


def age(pid: int) -> float:
    """Seconds since a process was started. Raises FileNotFoundError where there is none."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    up = float(Path("/proc/uptime").read_text(encoding="ascii").split()[0])
    return up - int(fields[19]) / os.sysconf("SC_CLK_TCK")


class Machine:
    """What the processes of a run stand on."""

    def __init__(self, folder: Path) -> None:
        self._clocks = folder / "clocks"
        self._clocks.mkdir()
        self._mounted: list[Path] = []
        self.missing: dict[Fault, str] = {}
        """Faults that this machine does not allow, and why."""
        self._shim = self._compile()

    def _compile(self) -> Path | None:
        compiler = needs.find("cc")
        source, shim = self._clocks / "shim.c", self._clocks / "shim.so"
        source.write_text(_SHIM)
        if compiler is None:
            self.missing[Fault.CLOCK] = "there is no C compiler (cc)"
            return None
        subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-o", str(shim), str(source)], check=True)
        return shim

    def environment(self, name: str) -> dict[str, str]:
        """What a process needs in its environment for its clock to step."""
        if self._shim is None:
            return {}
        (self._clocks / name).write_bytes(struct.pack("=q", 0))
        return {"LD_PRELOAD": str(self._shim), "SOAK_CLOCK": str(self._clocks / name)}

    def step_clock(self, name: str, seconds: int) -> None:
        """Set a process's clock off by so much from now on."""
        with (self._clocks / name).open("r+b") as file:
            file.write(struct.pack("=q", seconds))

    def small_disk(self, folder: Path) -> None:
        """Make ``folder`` a file system of its own, with its content to come."""
        folder.mkdir(mode=0o700)
        mount = needs.find("mount")
        if mount is None:
            self.missing[Fault.DISK_FULL] = "there is no program mount"
        if mount is None or Fault.DISK_FULL in self.missing:
            return
        done = subprocess.run(
            [mount, "-t", "tmpfs", "-o", f"size={DISK_BYTES},mode=700", "soak", str(folder)],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            self.missing[Fault.DISK_FULL] = f"mounting is not allowed: {done.stderr.strip()}"
            return
        self._mounted.append(folder)

    def full_disk(self, folder: Path, seconds: float, *, over: threading.Event | None = None) -> None:
        """Leave a state directory without a free byte for so long, or until it is over."""
        over = over or threading.Event()
        filler = folder / "filler"
        try:
            with filler.open("wb", buffering=0) as file:
                until = time.monotonic() + seconds
                while time.monotonic() < until:
                    # What is freed meanwhile is taken, too.
                    with contextlib.suppress(OSError):
                        while True:
                            file.write(bytes(4096))
                    if over.wait(0.05):
                        break
        finally:
            filler.unlink(missing_ok=True)

    @contextmanager
    def little_memory(self, pid: int) -> Iterator[None]:
        """Let a process have hardly more address space than it has now."""
        pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[0])
        soft, hard = resource.prlimit(pid, resource.RLIMIT_AS)
        limit = pages * os.sysconf("SC_PAGE_SIZE") + MEMORY_LEFT
        resource.prlimit(pid, resource.RLIMIT_AS, (limit, hard))
        try:
            yield
        finally:
            with contextlib.suppress(ProcessLookupError):  # it may have ended
                resource.prlimit(pid, resource.RLIMIT_AS, (soft, hard))

    def close(self) -> None:
        """Unmount."""
        for folder in self._mounted:
            subprocess.run(["umount", "-l", str(folder)], capture_output=True, check=False)
        self._mounted.clear()
