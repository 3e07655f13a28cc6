OUT_LIMIT = 256 << 10  # beyond this, programs and connections are not read while the client takes something
KEPT_LIMIT = 32 << 20  # beyond this, they are not read at all
STUCK_AFTER = 1  # seconds in which a client took nothing
JOIN_LIMIT = 4 << 10


class Way:
    """The bytes to the client and from it, over one way after another.

    Both sides count them. What the client has not acknowledged is kept: the way itself
    acknowledges nothing, since srun takes bytes that nobody will get."""

    def __init__(self, source=-1, sink=-1):
        self.source, self.sink = source, sink  # -1: the way was lost
        self.received = 0
        self.told = 0  # how much of that the client knows of
        self.unsent, self.unsent_size = collections.deque(), 0
        self.sent, self.sent_size = collections.deque(), 0  # and not acknowledged
        self.acked = 0
        self.reached = 0  # how far it was sent, over this way or another
        self.owed = 0  # up to where it ends what was sent on channels that this side closed
        self.moved = time.monotonic()  # when the client took something

    def add(self, number, kind, payload):
        if not self.unsent_size:
            self.moved = time.monotonic()
        append(self.unsent, HEADER.pack(number, kind, len(payload)))
        append(self.unsent, payload)
        self.unsent_size += HEADER.size + len(payload)
        if kind == CLOSE:
            self.owed = self.acked + self.sent_size + self.unsent_size

    def write(self):
        """Sends what the way takes; false: it was lost."""
        while self.unsent and self.sink >= 0:
            try:
                n = os.writev(self.sink, list(itertools.islice(self.unsent, 64)))
            except (BlockingIOError, InterruptedError):
                break
            except OSError:
                return False
            self.moved = time.monotonic()
            move(n, self.unsent, self.sent)
            self.unsent_size -= n
            self.sent_size += n
            self.reached = max(self.reached, self.acked + self.sent_size)
        return True

    def acknowledge(self, total):
        """Forgets what the client has; false: it cannot have that."""
        if total > self.reached:
            return False
        n = max(0, total - self.acked)  # an old one may come again over the next way
        sent = min(n, self.sent_size)  # the rest may be under way again: the client has it from another way
        move(sent, self.sent)
        move(n - sent, self.unsent)
        self.acked += n
        self.sent_size -= sent
        self.unsent_size -= n - sent
        return True

    def close(self):
        for fd in {self.source, self.sink} - {-1}:
            release(fd)
        self.source = self.sink = -1

    def open(self, fd):
        """Continues on another way, from the first byte that the client does not have."""
        self.source = self.sink = fd
        self.unsent.extendleft(reversed(self.sent))
        self.unsent_size += self.sent_size
        self.sent.clear()
        self.sent_size = 0
        self.told = self.received
        self.moved = time.monotonic()

    def busy(self):
        """Whether nothing more should be read for the client."""
        if self.unsent_size + self.sent_size > KEPT_LIMIT:
            return True
        return self.sink >= 0 and self.unsent_size > OUT_LIMIT and time.monotonic() < self.moved + STUCK_AFTER


def move(n, source, to=None):
    """Moves the first n bytes of a queue to the end of another, or drops them."""
    while n:
        data = source[0]
        if n < len(data):
            source[0] = memoryview(data)[n:]
            data = memoryview(data)[:n]
        else:
            source.popleft()
        if to is not None:
            append(to, data)
        n -= len(data)


def append(queue, data):
    """Appends bytes to a queue. Small ones are joined: each has a price in memory."""
    if len(data) >= JOIN_LIMIT:
        queue.append(data)
    elif queue and type(queue[-1]) is bytearray and len(queue[-1]) < JOIN_LIMIT:
        queue[-1] += data
    elif data:
        queue.append(bytearray(data))


def release(fd):
    """Closes a file descriptor; a standard one stays, as one that leads nowhere."""
    if fd > 2:
        os.close(fd)
        return
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, fd)
    os.close(null)
