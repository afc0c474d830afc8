"""An NFSv3 and MOUNT v3 client of its own (RFC 1813, RFC 5531), for tests that must say every byte themselves.

It shares nothing with the server: the XDR is written here from the RFCs. `Rpc` is one TCP connection and may have many
calls under way; `Volume` mounts an export and offers the procedures; `stream` keeps several connections busy.
"""
import collections
import select
import socket
import struct
import time

MOUNT, NFS, PORTMAP = 100005, 100003, 100000

OK, PERM, NOENT, IO, ACCES, EXIST, NOTDIR, ISDIR, INVAL, FBIG, NOSPC, ROFS = 0, 1, 2, 5, 13, 17, 20, 21, 22, 27, 28, 30
NAMETOOLONG, NOTEMPTY, DQUOT, STALE, BADHANDLE, NOT_SYNC, NOTSUPP, JUKEBOX = 63, 66, 69, 70, 10001, 10002, 10004, 10008
UNSTABLE, DATA_SYNC, FILE_SYNC = 0, 1, 2
UNCHECKED, GUARDED, EXCLUSIVE = 0, 1, 2
REG, DIR, BLK, CHR, LNK, SOCK, FIFO = 1, 2, 3, 4, 5, 6, 7


class NfsError(Exception):
    """A procedure's status that is not OK."""

    def __init__(self, procedure, status):
        super().__init__(f"{procedure}: status {status}")
        self.status = status


class RpcError(Exception):
    """A reply that is not accepted and successful; `stat` is its accept_stat, reject_stat or auth_stat."""

    def __init__(self, kind, stat):
        super().__init__(f"{kind} {stat}")
        self.kind, self.stat = kind, stat


class Out:
    """XDR (RFC 4506), written."""

    def __init__(self):
        self.parts = []

    def u32(self, *values):
        self.parts.append(struct.pack(f">{len(values)}I", *values))
        return self

    def u64(self, value):
        self.parts.append(struct.pack(">Q", value))
        return self

    def opaque(self, data):
        if isinstance(data, str):
            data = data.encode()
        self.parts += [struct.pack(">I", len(data)), data, bytes(-len(data) % 4)]
        return self

    def fixed(self, data):
        self.parts.append(data)
        return self

    def done(self):
        return b"".join(self.parts)


class In:
    """XDR, read; a short message is an error of the server's."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def u32(self):
        self.at += 4
        return struct.unpack_from(">I", self.data, self.at - 4)[0]

    def u64(self):
        self.at += 8
        return struct.unpack_from(">Q", self.data, self.at - 8)[0]

    def boolean(self):
        value = self.u32()
        assert value in (0, 1), f"a boolean of {value}"
        return bool(value)

    def fixed(self, size):
        value = self.data[self.at:self.at + size]
        assert len(value) == size, "the reply is cut short"
        self.at += size + -size % 4
        return value

    def opaque(self):
        return self.fixed(self.u32())

    def rest(self):
        return len(self.data) - self.at


Attributes = collections.namedtuple(
    "Attributes", "type mode nlink uid gid size used rdev fsid fileid atime mtime ctime")


def read_attributes(x):
    head = [x.u32() for _ in range(5)]
    size, used = x.u64(), x.u64()
    rdev = (x.u32(), x.u32())
    fsid, fileid = x.u64(), x.u64()
    times = [(x.u32(), x.u32()) for _ in range(3)]
    return Attributes(*head, size, used, rdev, fsid, fileid, *times)


def read_post_op(x):
    return read_attributes(x) if x.boolean() else None


def read_wcc(x):
    before = (x.u64(), (x.u32(), x.u32()), (x.u32(), x.u32())) if x.boolean() else None
    return before, read_post_op(x)


def auth_sys(uid=0, gid=0, gids=(), machine="e2e"):
    body = Out().u32(0).opaque(machine).u32(uid, gid, len(gids))
    if gids:
        body.u32(*gids)
    return Out().u32(1).opaque(body.done()).done()


AUTH_NONE = Out().u32(0, 0).done()


class Rpc:
    """One connection. `source` binds the client's address, so that a test can be several clients."""

    def __init__(self, address, port, cred=None, source=None, timeout=30.0):
        self.sock = socket.socket()
        if source:
            self.sock.bind((source, 0))
        self.sock.settimeout(timeout)
        self.sock.connect((address, port))
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.cred = auth_sys() if cred is None else cred
        self.xid = int(time.monotonic_ns()) & 0x7FFFFFFF
        self.replies = {}
        self.buffer = bytearray()

    def close(self):
        self.sock.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def encode(self, program, version, procedure, arguments, cred=None):
        """A call's record, and its xid."""
        self.xid = (self.xid + 1) & 0xFFFFFFFF
        call = (struct.pack(">6I", self.xid, 0, 2, program, version, procedure) + (cred or self.cred) + AUTH_NONE +
                arguments)
        return self.xid, struct.pack(">I", 0x80000000 | len(call)) + call

    def send(self, program, version, procedure, arguments=b"", cred=None):
        xid, record = self.encode(program, version, procedure, arguments, cred)
        self.sock.sendall(record)
        return xid

    def read_record(self):
        """The next whole reply; None when the server closed the connection between two of them."""
        whole = bytearray()
        while True:
            while len(self.buffer) < 4:
                if not self.fill():
                    return None
            header = struct.unpack_from(">I", self.buffer)[0]
            size = header & 0x7FFFFFFF
            while len(self.buffer) < 4 + size:
                if not self.fill():
                    raise ConnectionError("closed in the middle of a reply")
            whole += self.buffer[4:4 + size]
            del self.buffer[:4 + size]
            if header & 0x80000000:
                return bytes(whole)

    def has_record(self):
        """Whether read_record would answer from what was received already."""
        at = 0
        while len(self.buffer) >= at + 4:
            header = struct.unpack_from(">I", self.buffer, at)[0]
            at += 4 + (header & 0x7FFFFFFF)
            if header & 0x80000000:
                return len(self.buffer) >= at
        return False

    def fill(self):
        data = self.sock.recv(1 << 20)
        self.buffer += data
        return bool(data)

    def receive(self, xid):
        """The results of a call; replies to others are kept for them."""
        while xid not in self.replies:
            record = self.read_record()
            if record is None:
                raise ConnectionError("closed without a reply")
            self.replies[struct.unpack_from(">I", record)[0]] = record
        return self.results(self.replies.pop(xid))

    @staticmethod
    def results(record):
        x = In(record)
        x.u32()
        assert x.u32() == 1, "not a reply"
        if x.u32() == 1:
            stat = x.u32()
            raise RpcError("AUTH_ERROR" if stat == 1 else "RPC_MISMATCH", x.u32())
        x.u32()
        x.opaque()
        stat = x.u32()
        if stat != 0:
            raise RpcError("accept_stat", stat)
        return x

    def call(self, program, version, procedure, arguments=b"", cred=None):
        return self.receive(self.send(program, version, procedure, arguments, cred))


def sattr(mode=None, uid=None, gid=None, size=None, atime=None, mtime=None):
    """sattr3; a time is "server", or (seconds, nanoseconds)."""
    out = Out()
    for value in mode, uid, gid:
        out.u32(0) if value is None else out.u32(1, value)
    out.u32(0) if size is None else out.u32(1).u64(size)
    for value in atime, mtime:
        if value is None:
            out.u32(0)
        elif value == "server":
            out.u32(1)
        else:
            out.u32(2, *value)
    return out.done()


def mount(address, port, path, cred=None, source=None):
    """MNT: the root's handle."""
    with Rpc(address, port, cred, source) as rpc:
        x = rpc.call(MOUNT, 3, 1, Out().opaque(path).done())
        status = x.u32()
        if status != OK:
            raise NfsError("MNT", status)
        handle = x.opaque()
        flavours = [x.u32() for _ in range(x.u32())]
        assert 1 in flavours, f"AUTH_SYS is not among {flavours}"
        return handle


def exports(address, port):
    """EXPORT: {path: [groups]}."""
    with Rpc(address, port) as rpc:
        x, found = rpc.call(MOUNT, 3, 5), {}
        while x.boolean():
            path = x.opaque().decode()
            groups = []
            while x.boolean():
                groups.append(x.opaque().decode())
            found[path] = groups
        return found


class Volume:
    """An export, mounted over one connection, with the procedures of NFSv3 as methods."""

    def __init__(self, address, port, path, cred=None, source=None, timeout=30.0, root=None):
        self.root = root or mount(address, port, path, cred, source)
        self.rpc = Rpc(address, port, cred, source, timeout)

    def close(self):
        self.rpc.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def call(self, name, procedure, arguments, cred=None):
        x = self.rpc.call(NFS, 3, procedure, arguments, cred)
        status = x.u32()
        if status != OK:
            raise NfsError(name, status)
        return x

    def null(self):
        self.rpc.call(NFS, 3, 0)

    def getattr(self, handle):
        return read_attributes(self.call("GETATTR", 1, Out().opaque(handle).done()))

    def setattr(self, handle, guard=None, **changes):
        out = Out().opaque(handle).fixed(sattr(**changes))
        out.u32(0) if guard is None else out.u32(1, *guard)
        return read_wcc(self.call("SETATTR", 2, out.done()))[1]

    def lookup(self, folder, name):
        x = self.call("LOOKUP", 3, Out().opaque(folder).opaque(name).done())
        return x.opaque()

    def access(self, handle, bits=0x3F):
        x = self.call("ACCESS", 4, Out().opaque(handle).u32(bits).done())
        read_post_op(x)
        return x.u32()

    def readlink(self, handle):
        x = self.call("READLINK", 5, Out().opaque(handle).done())
        read_post_op(x)
        return x.opaque()

    def read(self, handle, offset, count):
        """(data, eof)"""
        x = self.call("READ", 6, read_arguments(handle, offset, count))
        read_post_op(x)
        count, eof = x.u32(), x.boolean()
        data = x.opaque()
        assert len(data) == count, "count and data differ"
        return data, eof

    def write(self, handle, offset, data, stable=FILE_SYNC):
        """(count, committed, verifier)"""
        x = self.call("WRITE", 7, write_arguments(handle, offset, data, stable))
        read_wcc(x)
        return x.u32(), x.u32(), x.fixed(8)

    def _made(self, x):
        handle = x.opaque() if x.boolean() else None
        read_post_op(x)
        return handle

    def create(self, folder, name, how=UNCHECKED, verifier=bytes(8), **attributes):
        out = Out().opaque(folder).opaque(name).u32(how)
        out.fixed(verifier if how == EXCLUSIVE else sattr(**attributes))
        return self._made(self.call("CREATE", 8, out.done()))

    def mkdir(self, folder, name, **attributes):
        return self._made(self.call("MKDIR", 9, Out().opaque(folder).opaque(name).fixed(sattr(**attributes)).done()))

    def symlink(self, folder, name, target, **attributes):
        out = Out().opaque(folder).opaque(name).fixed(sattr(**attributes)).opaque(target)
        return self._made(self.call("SYMLINK", 10, out.done()))

    def remove(self, folder, name):
        self.call("REMOVE", 12, Out().opaque(folder).opaque(name).done())

    def rmdir(self, folder, name):
        self.call("RMDIR", 13, Out().opaque(folder).opaque(name).done())

    def rename(self, folder, name, to_folder, to_name):
        self.call("RENAME", 14, Out().opaque(folder).opaque(name).opaque(to_folder).opaque(to_name).done())

    def link(self, handle, folder, name):
        self.call("LINK", 15, Out().opaque(handle).opaque(folder).opaque(name).done())

    def readdir(self, folder, count=65536):
        """All names but "." and ".."."""
        names, cookie, verifier = [], 0, bytes(8)
        while True:
            x = self.call("READDIR", 16, Out().opaque(folder).u64(cookie).fixed(verifier).u32(count).done())
            read_post_op(x)
            verifier = x.fixed(8)
            while x.boolean():
                x.u64()
                names.append(x.opaque().decode())
                cookie = x.u64()
            if x.boolean():
                return [n for n in names if n not in (".", "..")]

    def fsstat(self, handle=None):
        """{tbytes, fbytes, abytes, tfiles, ffiles, afiles}"""
        x = self.call("FSSTAT", 18, Out().opaque(handle or self.root).done())
        read_post_op(x)
        return {key: x.u64() for key in ("tbytes", "fbytes", "abytes", "tfiles", "ffiles", "afiles")}

    def commit(self, handle, offset=0, count=0):
        x = self.call("COMMIT", 21, Out().opaque(handle).u64(offset).u32(count).done())
        read_wcc(x)
        return x.fixed(8)

    def put(self, name, data, chunk=262144, folder=None):
        """Writes a whole file: UNSTABLE, then COMMIT. Its handle."""
        handle = self.create(folder or self.root, name, mode=0o644)
        verifiers = set()
        for at in range(0, len(data), chunk):
            part = data[at:at + chunk]
            count, _, verifier = self.write(handle, at, part, UNSTABLE)
            assert count == len(part), "a short write"
            verifiers.add(verifier)
        verifiers.add(self.commit(handle))
        assert len(verifiers) == 1, "the server started anew in between"
        return handle

    def get(self, handle, chunk=262144):
        """Reads a whole file."""
        parts, at, eof = [], 0, False
        while not eof:
            data, eof = self.read(handle, at, chunk)
            assert data or eof, "an empty read before the end"
            parts.append(data)
            at += len(data)
        return b"".join(parts)


def read_arguments(handle, offset, count):
    return Out().opaque(handle).u64(offset).u32(count).done()


def write_arguments(handle, offset, data, stable):
    return Out().opaque(handle).u64(offset).u32(len(data), stable).opaque(data).done()


def reply_count(record, writing):
    """The bytes that a READ or WRITE moved."""
    x = Rpc.results(record)
    status = x.u32()
    if status != OK:
        raise NfsError("WRITE" if writing else "READ", status)
    read_wcc(x) if writing else read_post_op(x)
    return x.u32()


def stream(addresses, port, handle, offset, total, writing, chunk=262144, depth=4, cred=None, progress=None,
           timeout=60.0):
    """Moves `total` bytes of one file through all addresses at once, `depth` calls under way on each.

    Returns the seconds from the first call sent to the last reply. `progress(seconds, bytes)` is called at each reply.
    """
    connections = [Rpc(a, port, cred) for a in addresses]
    data = memoryview(bytes(chunk))
    pieces = collections.deque((at, min(chunk, total - at)) for at in range(0, total, chunk))
    waiting = {c.sock: 0 for c in connections}
    by_socket = {c.sock: c for c in connections}
    begun, moved = time.monotonic(), 0

    def send(c):
        while pieces and waiting[c.sock] < depth:
            at, size = pieces.popleft()
            if writing:
                arguments = write_arguments(handle, offset + at, bytes(data[:size]), UNSTABLE)
            else:
                arguments = read_arguments(handle, offset + at, size)
            c.send(NFS, 3, 7 if writing else 6, arguments)
            waiting[c.sock] += 1

    try:
        for c in connections:
            send(c)
        while moved < total:
            ready, _, _ = select.select([s for s in by_socket if waiting[s]], [], [], timeout)
            if not ready:
                raise TimeoutError(f"no reply for {timeout} s after {moved} of {total} bytes")
            for sock in ready:
                c, first = by_socket[sock], True
                while first or c.has_record():
                    first = False
                    record = c.read_record()
                    if record is None:
                        raise ConnectionError("closed while calls were under way")
                    moved += reply_count(record, writing)
                    waiting[sock] -= 1
                    if progress:
                        progress(time.monotonic() - begun, moved)
                send(c)
        return time.monotonic() - begun
    finally:
        for c in connections:
            c.close()
