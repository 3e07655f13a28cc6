# RFC 6455, section 5.2.
WS_PING, WS_PONG, WS_CONTROL, WS_FINAL, WS_MASKED = 9, 10, 8, 0x80, 0x80
WS_HEAD_LIMIT = 64 << 10
WS_MESSAGE_LIMIT = 32 << 20  # of one that is collected; the rest of it is cut off
WS_ACCEPT = re.compile(br"(\r\nsec-websocket-accept:[ \t]*)[^\r\n]*", re.IGNORECASE)
WS_UPGRADE = re.compile(br"\r\nupgrade:[ \t]*websocket", re.IGNORECASE)


class WebSocket:
    """A connection that may be a WebSocket."""

    def __init__(self):
        self.client = Frames(b"GET ")
        self.server = Frames(b"HTTP/1.1 101")

    def received(self, data):
        """Takes in what the client sends. Raises ValueError if it is no WebSocket."""
        self.client.follow(data)
        if self.client.control.pop(WS_PONG, None) is not None:
            self.server.control.pop(WS_PING, None)

    def sent(self, data):
        """The same for the server."""
        self.server.follow(data)

    def pong(self):
        """The answer to a ping that the client has not answered, unless it is in the middle of a frame."""
        if self.client.http or self.client.head or self.client.left or WS_PING not in self.server.control:
            return b""
        ping, mask = self.server.control.pop(WS_PING), os.urandom(4)
        return bytes([WS_FINAL | WS_PONG, WS_MASKED | len(ping)]) + mask + unmask(ping, mask)


class Frames:
    """What one side of a WebSocket sends: a head of HTTP, then frames."""

    def __init__(self, begin):
        self.begin = begin
        self.http = True
        self.head = b""  # of HTTP or of a frame, as far as it came
        self.left = 0  # bytes of the frame that come yet
        self.kind = self.final = 0
        self.mask = b""
        self.payload = b""  # of a control frame
        self.control = {}  # the last payload of each kind
        self.at = 0  # bytes of frames so far
        self.whole = 0  # the same after the last whole message
        self.message = None  # as far as it came, while within one; see on_message
        self.on_message = None  # gets each message

    def follow(self, data):
        at = self.skip_http(data) if self.http else 0
        shift = self.at - at
        while at < len(data):
            if not self.left:
                n = min(self.head_size() - len(self.head), len(data) - at)
                self.head += data[at:at + n]
                at += n
                if len(self.head) < self.head_size():
                    continue
                self.begin_frame()
            n = min(self.left, len(data) - at)
            if self.kind & WS_CONTROL:
                self.payload += data[at:at + n]
                if n == self.left:
                    self.control[self.kind] = unmask(self.payload, self.mask)
            elif self.on_message and len(self.message) < WS_MESSAGE_LIMIT:
                self.message += data[at:at + n]
            at += n
            self.left -= n
            if not self.left:
                self.end_frame(shift + at)
        self.at = shift + at

    def skip_http(self, data):
        """Where the frames begin."""
        before = len(self.head)
        self.head += data
        end = self.head.find(b"\r\n\r\n")
        if not self.head.startswith(self.begin[:len(self.head)]) or end < 0 and len(self.head) > WS_HEAD_LIMIT:
            raise ValueError
        if end < 0:
            return len(data)
        if not WS_UPGRADE.search(self.head[:end]):
            raise ValueError
        self.http, self.head = False, b""
        return end + 4 - before

    def head_size(self):
        if len(self.head) < 2:
            return 2
        return 2 + {126: 2, 127: 8}.get(self.head[1] & 127, 0) + (4 if self.head[1] & WS_MASKED else 0)

    def begin_frame(self):
        length = self.head[1] & 127
        if length == 126:
            length = struct.unpack_from(">H", self.head, 2)[0]
        elif length == 127:
            length = COUNT.unpack_from(self.head, 2)[0]
        self.kind, self.final = self.head[0] & 15, self.head[0] & WS_FINAL
        self.mask = self.head[-4:] if self.head[1] & WS_MASKED else b""
        self.left, self.head, self.payload = length, b"", b""
        if self.kind & WS_CONTROL:
            if length > 125:
                raise ValueError
        elif self.message is None:
            self.message = bytearray()

    def end_frame(self, at):
        if not self.kind & WS_CONTROL and self.final:
            message, self.message = self.message, None
            if self.on_message:
                self.on_message(message, at)
        if self.message is None:  # control frames may stand within one
            self.whole = at


def unmask(data, mask):
    return bytes(b ^ mask[i % 4] for i, b in enumerate(data)) if mask else data
