OUT_LIMIT = 256 << 10  # beyond this, programs and connections are not read while the client takes something
KEPT_LIMIT = 32 << 20  # beyond this, they are not read at all
STUCK_AFTER = 1  # seconds in which a client took nothing


class Buffer:
    """A part of a stream of bytes, by position."""

    def __init__(self):
        self.begin = self.end = 0
        self.tail = bytearray()  # up to the end

    def __len__(self):
        return self.end - self.begin

    def append(self, data):
        self.tail += data
        self.end += len(data)

    def write(self, fd, at):
        """Writes from a position on what a file descriptor takes; returns up to where."""
        with memoryview(self.tail) as view:
            return at + os.write(fd, view[at - self.begin:])

    def drop(self, to):
        """Forgets what is before a position."""
        if to > self.begin:
            del self.tail[:to - self.begin]
            self.begin = to


class Way:
    """The bytes to the client and from it, over one way after another.

    Both sides count them. What the client has not acknowledged is kept: the way itself
    acknowledges nothing, since srun takes bytes that nobody will get."""

    def __init__(self, source=-1, sink=-1):
        self.source, self.sink = source, sink  # -1: the way was lost
        self.received = 0
        self.told = 0  # how much of that the client knows of
        self.kept = Buffer()  # what the client has not acknowledged
        self.sent = 0  # up to where over this way
        self.reached = 0  # the same over this way or another
        self.owed = 0  # up to where it ends what was sent on channels that this side closed
        self.moved = time.monotonic()  # when the client took something

    def unsent(self):
        return self.kept.end - self.sent

    def add(self, number, kind, payload):
        if not self.unsent():
            self.moved = time.monotonic()
        self.kept.append(HEADER.pack(number, kind, len(payload)))
        self.kept.append(payload)
        if kind == CLOSE:
            self.owed = self.kept.end

    def write(self):
        """Sends what the way takes; false: it was lost."""
        while self.unsent() and self.sink >= 0:
            try:
                self.sent = self.kept.write(self.sink, self.sent)
            except (BlockingIOError, InterruptedError):
                break
            except OSError:
                return False
            self.moved = time.monotonic()
            self.reached = max(self.reached, self.sent)
        return True

    def acknowledge(self, total):
        """Forgets what the client has; false: it cannot have that."""
        if total > self.reached:
            return False
        self.kept.drop(total)  # an old total may come again over the next way
        self.sent = max(self.sent, total)  # what is under way again, the client has from another way
        return True

    def open(self, fd):
        """Continues on another way, from the first byte that the client does not have."""
        self.source = self.sink = fd
        self.sent, self.told = self.kept.begin, self.received
        self.moved = time.monotonic()

    def busy(self):
        """Whether nothing more should be read for the client."""
        if len(self.kept) > KEPT_LIMIT:
            return True
        return self.sink >= 0 and self.unsent() > OUT_LIMIT and time.monotonic() < self.moved + STUCK_AFTER


def release(fd):
    """Closes a file descriptor; a standard one stays, as one that leads nowhere."""
    if fd > 2:
        os.close(fd)
        return
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, fd)
    os.close(null)
