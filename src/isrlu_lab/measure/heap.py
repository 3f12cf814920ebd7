"""Memory that is freed stays with the process, so that no contender is charged for fresh pages.

glibc gives large blocks back to the system, or keeps them, depending on what was allocated before. A tensor of 6 MB on
fresh pages takes 1,536 page faults, which can take longer than the call that fills it. Whether a contender meets them
depends on chance and on its neighbours, not on itself.
"""

import ctypes
import sys

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # names and values of glibc's malloc.h
LARGEST_MMAP_THRESHOLD = 32 << 20  # bytes; glibc refuses more


def keep_freed_memory() -> bool:
    """Let malloc keep blocks below 32 MiB that are freed, for the rest of the process. False without glibc."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is None:
        return False
    never = 2**31 - 1  # bytes of free memory at the top of the heap
    return bool(mallopt(M_MMAP_THRESHOLD, LARGEST_MMAP_THRESHOLD) and mallopt(M_TRIM_THRESHOLD, never))
