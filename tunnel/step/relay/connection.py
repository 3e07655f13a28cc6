CONNECT_TIMEOUT = 20  # seconds


class Connection(Channel):
    """A connection to an address or a socket, as this node sees it."""

    def __init__(self, relay, number, request):
        Channel.__init__(self, relay, number)
        self.socket = None  # until it is connected
        self.lookup = None  # of the addresses of a name
        self.error = "no address"
        self.done = self.eof_sent = False  # the other side sends no more; the client knows
        self.deadline = time.monotonic() + CONNECT_TIMEOUT
        self.websocket = WebSocket()  # None: it is none
        self.spool = Spool()  # what a WebSocket's server has sent and the client may still need
        self.given = 0  # up to where the client was sent that
        if request["kind"] == "unix":
            self.addresses = [(socket.AF_UNIX, decode(request["path"]))]
        else:
            self.addresses = literal(request["host"], request["port"])
        relay.channels[number] = self
        relay.connecting.add(self)
        if self.addresses is None:
            self.lookup = Helper(relay, self.resolved, look_up, request["host"], request["port"])
        else:
            self.connect()

    def resolved(self, found):
        self.lookup = None
        if isinstance(found, list):
            self.addresses = [(family, tuple(address)) for family, address in found]
            self.connect()
        else:
            self.refuse(found or "the name could not be looked up")

    def connect(self):
        """Tries the next address."""
        while self.addresses:
            family, address = self.addresses.pop(0)
            try:
                self.socket = socket.socket(family)
                self.socket.setblocking(False)
                code = self.socket.connect_ex(address)
                if code in (0, errno.EINPROGRESS):
                    self.relay.watch(self.socket.fileno(), WRITE, self.progressed)
                    return
                self.error = os.strerror(code)
            except (OSError, ValueError) as err:
                self.error = words(err)
            self.close_socket()
        self.refuse(self.error)

    def progressed(self, fd, _):
        self.relay.watch(fd, 0, None)
        code = self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            self.error = os.strerror(code)
            self.close_socket()
            self.connect()
        else:
            self.connected()

    def write(self, data):
        self.follow(self.websocket and self.websocket.received, data)
        if self in self.relay.connecting:
            self.queue.append(data)
        else:
            Channel.write(self, data)

    def follow(self, direction, data):
        if self.websocket:
            try:
                direction(data)
            except ValueError:
                self.websocket = None

    def took(self, fd, data):
        """A WebSocket's frames go through the spool: while nobody takes them, they stay there."""
        before = self.websocket.server.at if self.websocket else 0
        self.follow(self.websocket and self.websocket.sent, data)
        head = len(data)
        if self.websocket:
            head -= self.websocket.server.at - before
        elif self.given < self.spool.end:
            head = 0
        if head:
            if self.websocket:
                self.began(data[:head])
            Channel.took(self, fd, data[:head])
        if head < len(data):
            self.spool.append(data[head:])
            self.feed()
        if self.is_held():
            self.answer_ping()

    def began(self, head):
        """What the server sends before the first frame."""

    def is_held(self):
        return bool(self.websocket) and (self.relay.away() or self.given < self.spool.end)

    def wants(self):
        if self.is_held():
            return READ_SIZE if self.relay.has_room() else 0
        return self.credit

    def client_moved(self):
        self.feed()
        self.watch()
        if self.is_held():
            self.answer_ping()

    def feed(self):
        """Sends what waits, as far as the client accepts it."""
        while self.given < self.spool.end and self.credit > 0 and not self.relay.away():
            data = self.spool.read(self.given, min(self.credit, READ_SIZE))
            self.given += len(data)
            self.credit -= len(data)
            self.send(DATA, data)
        self.spool.drop(self.needed_from())
        if self.done and self.given == self.spool.end:
            self.end_data()

    def needed_from(self):
        return self.given

    def add_credit(self, n):
        self.credit += n
        self.feed()
        self.watch()

    def answer_ping(self):
        """Has the server wait for a client that gets nothing now, as it waits for one that answers."""
        pong = self.websocket.pong() if self.websocket and not self.got_eof else b""
        if pong:
            self.consumed -= len(pong)  # the client has not sent it
            Channel.write(self, pong)

    def connected(self):
        self.relay.connecting.discard(self)
        if self.socket.family != socket.AF_UNIX:
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sink, self.socket = self.socket.detach(), None
        self.sources = {self.sink: DATA}
        if self.queue:
            self.relay.await_answer()
        self.opened()

    def refuse(self, message):
        self.drop()
        self.send(REFUSED, json.dumps({"message": message}).encode())

    def close_socket(self):
        if self.socket:
            self.relay.watch(self.socket.fileno(), 0, None)
            self.socket.close()
            self.socket = None

    def close_all(self):
        self.relay.connecting.discard(self)
        if self.lookup:
            self.lookup.close()
        self.close_socket()
        self.spool.close()
        self.close_server()

    close_server = Channel.close_all

    def read_eof(self, fd):
        self.done = True
        del self.sources[fd]
        self.watch()
        self.feed()

    def end_data(self):
        """All that the server sent is with the client."""
        if not self.eof_sent:
            self.eof_sent = True
            self.send(EOF)
        self.finish()

    def lost(self, *_):
        self.send(CLOSE)
        self.drop()

    sink_lost = lost

    def end_sink(self):
        with contextlib.suppress(OSError), socket.fromfd(self.sink, socket.AF_INET, socket.SOCK_STREAM) as s:
            s.shutdown(socket.SHUT_WR)  # whatever family it is of
        self.watch()
        self.finish()

    def finish(self):
        if self.eof_sent and self.got_eof and not self.queue:
            self.send(CLOSE)
            self.drop()

    def hang_up(self):
        self.drop()


def literal(host, port):
    """The addresses of a host that need no lookup, or None."""
    if host == "localhost":
        return [(socket.AF_INET, ("127.0.0.1", port)), (socket.AF_INET6, ("::1", port))]
    with contextlib.suppress(OSError, ValueError):
        return [(a[0], a[4]) for a in socket.getaddrinfo(host, port, 0, socket.SOCK_STREAM, 0, socket.AI_NUMERICHOST)]
    return None


def look_up(host, port):
    """The addresses of a host, or why there are none."""
    default_signals()
    signal.alarm(CONNECT_TIMEOUT)
    try:
        return [(int(a[0]), a[4]) for a in socket.getaddrinfo(host, port, 0, socket.SOCK_STREAM)]
    except (OSError, ValueError) as err:
        return words(err)
