READ_SIZE = 64 << 10


class Channel:
    """Data between the client and file descriptors."""

    def __init__(self, relay, number):
        self.relay = relay
        self.number = number
        self.credit = WINDOW_SIZE  # how many bytes the client accepts
        self.sources = {}  # file descriptors that are read: the kind of frame
        self.sink = -1  # the file descriptor that is written to
        self.queue = Buffer()  # for the sink
        self.consumed = 0  # bytes that the client may send again
        self.got_eof = False

    def opened(self):
        self.relay.channels[self.number] = self
        self.send(OPENED)
        self.watch()

    def send(self, kind, payload=b""):
        self.relay.send(self.number, kind, payload)

    def files(self):
        return set(self.sources) | {self.sink} - {-1}

    def watch(self):
        """Watches what can make progress, and only that."""
        for fd in self.files():
            events = READ if fd in self.sources and self.wants() > 0 else 0
            if fd == self.sink and self.queue:
                events |= WRITE
            self.relay.watch(fd, events, self.ready, self.is_held())

    def ready(self, fd, events):
        if events & WRITE and fd == self.sink:
            self.flush()
        if events & READ and fd in self.sources:
            self.read(fd)

    def read(self, fd):
        try:
            data = os.read(fd, min(READ_SIZE, self.wants()))
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self.lost(fd)
            return
        if not data:
            self.read_eof(fd)
            return
        self.took(fd, data)
        if self.wants() <= 0:
            self.watch()

    def wants(self):
        """How many bytes are read for the client."""
        return self.credit

    def is_held(self):
        """Whether more is read although the client takes nothing."""
        return False

    def client_moved(self):
        """The client is away, or back."""

    def took(self, fd, data):
        self.credit -= len(data)
        self.send(self.sources[fd], data)

    def add_credit(self, n):
        self.credit += n
        self.watch()

    def write(self, data):
        if self.sink < 0:
            self.consume(len(data))  # nobody reads it
            return
        self.queue.append(data)
        if len(self.queue) == len(data):
            self.flush()

    def flush(self):
        queue = self.queue
        while queue:
            try:
                to = queue.write(self.sink, queue.begin)
            except (BlockingIOError, InterruptedError):
                break
            except OSError:
                self.sink_lost()
                return
            self.consume(to - queue.begin)
            queue.drop(to)
        self.watch()
        if self.got_eof and not queue:
            self.end_sink()

    def consume(self, n):
        self.consumed += n
        if self.consumed >= WINDOW_SIZE // 8:
            self.send(WINDOW, NUMBER.pack(self.consumed))
            self.consumed = 0

    def write_eof(self):
        self.got_eof = True
        if not self.queue:
            self.end_sink()

    def sink_lost(self):
        """Drops what nobody will read."""
        self.consume(len(self.queue))
        self.queue.drop(self.queue.end)
        self.watch()
        self.end_sink()

    def close(self, fd):
        self.relay.watch(fd, 0, None)
        self.sources.pop(fd, None)
        if fd == self.sink:
            self.sink = -1
        with contextlib.suppress(OSError):
            os.close(fd)

    def close_all(self):
        for fd in self.files():
            self.close(fd)
        self.queue.drop(self.queue.end)

    def drop(self):
        self.close_all()
        self.relay.channels.pop(self.number, None)
