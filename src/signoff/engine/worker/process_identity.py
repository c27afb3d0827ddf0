"""Identifies this process and host, and whether another process of the host is alive."""

from __future__ import annotations

import os
import platform
import uuid
from pathlib import Path

import psutil

from signoff.records import WorkerInfo
from signoff.version import __version__

BUILD_VARIABLE = "SIGNOFF_BUILD"

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_PID_NAMESPACE = Path("/proc/self/ns/pid")
_SAME_START_SECONDS = 2.0  # the kernel's start time of a process and ours differ by rounding


def this_host() -> str:
    """Return a name for the scope of process ids: host, boot and pid namespace."""
    boot = _BOOT_ID.read_text().strip() if _BOOT_ID.exists() else ""
    namespace = os.readlink(_PID_NAMESPACE) if _PID_NAMESPACE.exists() else ""
    return f"{platform.node()}/{boot}/{namespace}"


def new_worker(group: str, namespace: str, build: str | None = None) -> WorkerInfo:
    """Return the description of a new worker in this process."""
    process = psutil.Process()
    return WorkerInfo(
        id=f"{platform.node()}:{process.pid}:{uuid.uuid4().hex[:8]}",
        host=this_host(),
        pid=process.pid,
        process_started_at=process.create_time(),
        group=group,
        namespace=namespace,
        signoff_version=__version__,
        python_version=platform.python_version(),
        build=build or os.environ.get(BUILD_VARIABLE) or None,
    )


def is_dead(worker: WorkerInfo) -> bool:
    """Return whether a worker was a process of this host that has ended; False for other hosts."""
    if worker.host != this_host():
        return False
    try:
        started_at = psutil.Process(worker.pid).create_time()
    except psutil.NoSuchProcess:
        return True
    except psutil.AccessDenied:
        return False
    return abs(started_at - worker.process_started_at) > _SAME_START_SECONDS
