"""What kind of file system a folder lies on: write-ahead logs corrupt on shared ones (D39)."""

from __future__ import annotations

import ctypes
import os
import sys

_SHARED = {
    0x6969: "nfs",
    0x517B: "smb",
    0xFE534D42: "smb2",
    0xFF534D42: "cifs",
    0x01021997: "9p",
    0x65735546: "fuse or virtiofs",
    0x00C36400: "ceph",
    0x5346414F: "afs",
    0x73757245: "coda",
    0x0BD00BD0: "lustre",
    0x47504653: "gpfs",
    0x7461636F: "ocfs2",
    0x786F4256: "vboxsf",
    0x01161970: "gfs2",
}
"""`f_type` of statfs(2). FUSE may be local, but nothing tells it from virtiofs."""


def shared_file_system(folder: str) -> str | None:
    """Name of the network or shared file system that `folder` lies on; None where it is local
    or cannot be told (other systems than Linux). Blocks as stat does."""
    if not sys.platform.startswith("linux"):
        return None
    library = ctypes.CDLL(None, use_errno=True)
    buffer = ctypes.create_string_buffer(512)
    if library.statfs(os.fsencode(folder), buffer) != 0:
        return None
    kind = ctypes.c_long.from_buffer(buffer).value & 0xFFFFFFFF
    return _SHARED.get(kind)
