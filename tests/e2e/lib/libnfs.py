"""libnfs (Debian's libnfs-dev) as a client, by ctypes: an NFS implementation that is not ours. Errors raise OSError."""
import contextlib
import ctypes
import ctypes.util
import os

_lib = ctypes.CDLL(ctypes.util.find_library("nfs") or "libnfs.so.13", use_errno=True)
for _name, _result in (("nfs_init_context", ctypes.c_void_p), ("nfs_get_error", ctypes.c_char_p),
                       ("nfs_parse_url_dir", ctypes.c_void_p), ("nfs_readdir", ctypes.c_void_p)):
    getattr(_lib, _name).restype = _result


class Dirent(ctypes.Structure):
    """The head of struct nfsdirent."""
    _fields_ = [("next", ctypes.c_void_p), ("name", ctypes.c_char_p)]


class Stat(ctypes.Structure):
    """struct nfs_stat_64."""
    _fields_ = [(n, ctypes.c_uint64) for n in ("dev", "ino", "mode", "nlink", "uid", "gid", "rdev", "size", "blksize",
                                               "blocks", "atime", "mtime", "ctime", "atime_nsec", "mtime_nsec",
                                               "ctime_nsec", "used")]


class Mount:
    """An export, mounted. Paths begin with "/"."""

    def __init__(self, address, port, export):
        self.context = ctypes.c_void_p(_lib.nfs_init_context())
        url = f"nfs://{address}{export}?version=3&nfsport={port}&mountport={port}&auto-traverse-mounts=0"
        parsed = _lib.nfs_parse_url_dir(self.context, url.encode())
        if not parsed:
            raise OSError(self._text())
        _lib.nfs_destroy_url(ctypes.c_void_p(parsed))
        self._call(_lib.nfs_mount, address.encode(), export.encode())

    def _text(self):
        return _lib.nfs_get_error(self.context).decode(errors="replace")

    def _call(self, function, *arguments):
        rc = function(self.context, *arguments)
        if rc < 0:
            raise OSError(-rc, self._text())
        return rc

    def close(self):
        if self.context:
            _lib.nfs_destroy_context(self.context)
            self.context = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    @contextlib.contextmanager
    def open(self, path, flags=os.O_RDONLY, mode=0o644):
        handle = ctypes.c_void_p()
        self._call(_lib.nfs_open2, path.encode(), flags, mode, ctypes.byref(handle))
        try:
            yield handle
        finally:
            self._call(_lib.nfs_close, handle)

    def write(self, path, data, block=1 << 20):
        with self.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC) as handle:
            for offset in range(0, len(data), block):
                part = data[offset:offset + block]
                done = self._call(_lib.nfs_pwrite, handle, ctypes.c_uint64(offset), ctypes.c_uint64(len(part)), part)
                assert done == len(part), f"short write of {done}"
            self._call(_lib.nfs_fsync, handle)

    def read(self, path, block=1 << 20):
        buffer, parts, offset = ctypes.create_string_buffer(block), [], 0
        with self.open(path) as handle:
            while True:
                got = self._call(_lib.nfs_pread, handle, ctypes.c_uint64(offset), ctypes.c_uint64(block), buffer)
                if got == 0:
                    return b"".join(parts)
                parts.append(buffer.raw[:got])
                offset += got

    def mkdir(self, path):
        self._call(_lib.nfs_mkdir, path.encode())

    def rmdir(self, path):
        self._call(_lib.nfs_rmdir, path.encode())

    def unlink(self, path):
        self._call(_lib.nfs_unlink, path.encode())

    def rename(self, old, new):
        self._call(_lib.nfs_rename, old.encode(), new.encode())

    def link(self, old, new):
        self._call(_lib.nfs_link, old.encode(), new.encode())

    def symlink(self, target, path):
        self._call(_lib.nfs_symlink, target.encode(), path.encode())

    def readlink(self, path):
        buffer = ctypes.create_string_buffer(4096)
        self._call(_lib.nfs_readlink, path.encode(), buffer, 4096)
        return buffer.value.decode()

    def truncate(self, path, size):
        self._call(_lib.nfs_truncate, path.encode(), ctypes.c_uint64(size))

    def chmod(self, path, mode):
        self._call(_lib.nfs_chmod, path.encode(), mode)

    def stat(self, path):
        found = Stat()
        self._call(_lib.nfs_stat64, path.encode(), ctypes.byref(found))
        return found

    def names(self, path):
        folder = ctypes.c_void_p()
        self._call(_lib.nfs_opendir, path.encode(), ctypes.byref(folder))
        names = []
        try:
            while entry := _lib.nfs_readdir(self.context, folder):
                names.append(ctypes.cast(entry, ctypes.POINTER(Dirent)).contents.name.decode())
        finally:
            _lib.nfs_closedir(self.context, folder)
        return sorted(n for n in names if n not in (".", ".."))
