SPOOL_LIMIT = 256 << 20  # bytes of all streams
TAIL_LIMIT = 32 << 20  # bytes of all streams that are in no file
SPOOL_MEMORY = 256 << 10  # of one, before they go to a file
SPOOL_FILE = 8 << 20  # the size of such a file
DISKS = ("bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "jfs", "reiserfs", "xfs", "zfs")  # file systems of one node


class Spool(Buffer):
    """The newest of it is in memory, the rest in files that have no name."""

    def __init__(self):
        Buffer.__init__(self)
        self.files = collections.deque()  # (position, file descriptor)

    def append(self, data):
        Buffer.append(self, data)
        if len(self.tail) >= SPOOL_MEMORY:
            self.spill()

    def spill(self):
        start = self.end - len(self.tail)
        with contextlib.suppress(OSError):  # it stays in memory then, and nothing more is read: see Relay.has_room
            if not self.files or start - self.files[-1][0] >= SPOOL_FILE:
                with tempfile.TemporaryFile(dir=spool_folder()) as f:
                    self.files.append((start, os.dup(f.fileno())))
            first, fd = self.files[-1]
            while self.tail:
                n = os.pwrite(fd, self.tail, start - first)
                del self.tail[:n]
                start += n

    def read(self, at, n):
        """At most n bytes from a position that is not dropped."""
        start = self.end - len(self.tail)
        if at >= start:
            return bytes(self.tail[at - start:at - start + n])
        ends = [position for position, _ in self.files][1:] + [start]
        for (position, fd), end in zip(self.files, ends):
            if at < end:
                return os.pread(fd, min(n, end - at), at - position)

    def drop(self, to):
        self.begin = max(self.begin, to)
        start = self.end - len(self.tail)
        if self.begin > start:
            del self.tail[:self.begin - start]
            start = self.begin
        while self.files and (self.files[1][0] if len(self.files) > 1 else start) <= self.begin:
            os.close(self.files.popleft()[1])

    def close(self):
        self.drop(self.end)


@functools.lru_cache(maxsize=None)
def spool_folder():
    """A folder on a disk of this node, since a file system of the network may hang; None: it has none, and TMPDIR serves."""
    mounts = sorted((line.split() for line in proc("self/mountinfo").decode("utf-8", "replace").splitlines()), key=lambda m: len(m[4]))

    def on_disk(path):
        kinds = [m[m.index("-") + 1] for m in mounts if (path + "/").startswith(m[4].rstrip("/") + "/")]
        return kinds and kinds[-1] in DISKS

    folders = os.environ.get("TMPDIR") or "/tmp", "/tmp", "/var/tmp"
    return next((f for f in folders if on_disk(f) and on_disk(os.path.realpath(f)) and os.access(f, os.W_OK | os.X_OK)), None)
