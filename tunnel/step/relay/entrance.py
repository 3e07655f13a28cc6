PROOF_LIMIT = 4 << 10
PROOF_TIMEOUT = 20  # seconds


class Entrance:
    """The socket at which a client that lost its way comes back: one at a time, of the same
    user, and only with the secret. A connector may be late: when the client has tried again
    since, the attempt is refused."""

    def __init__(self, relay, name, secret):
        self.relay = relay
        self.secret = secret
        self.attempt = 0  # the newest that was accepted
        self.client, self.proof = None, b""
        self.deadline = 0
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind("\0" + name)
        self.listener.listen(1)
        self.listener.setblocking(False)
        relay.watch(self.listener.fileno(), READ, self.accept, True)

    def accept(self, *_):
        try:
            client, _ = self.listener.accept()
        except OSError:
            return
        if self.client or peer(client) != os.getuid():
            client.close()
            return
        client.setblocking(False)
        self.client, self.proof = client, b""
        self.deadline = time.monotonic() + PROOF_TIMEOUT
        self.relay.watch(client.fileno(), READ, self.read, True)

    def read(self, *_):
        try:
            data = self.client.recv(PROOF_LIMIT)  # no frame: the client waits for the answer
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        self.proof += data
        if not data or len(self.proof) > PROOF_LIMIT:
            self.dismiss()
        elif self.proof.endswith(b"\n"):
            self.check()

    def check(self):
        try:
            proof = json.loads(self.proof.decode())
            if proof["secret"] != self.secret:
                raise ValueError
            late = proof["attempt"] <= self.attempt or not self.relay.way.acknowledge(proof["received"])
            if late and not proof.get("end") and not proof.get("new"):
                raise ValueError
        except (ValueError, KeyError, TypeError):
            self.dismiss()
            return
        if proof.get("end"):
            tell(self.client.fileno(), {"kept": bool(self.relay.kernels)})
            self.dismiss()
            if not self.relay.kernels:
                self.relay.end()
            return
        self.attempt = proof["attempt"]
        client, self.client = self.client, None
        self.relay.watch(client.fileno(), 0, None)
        self.relay.come_back(client.detach(), proof.get("new"))

    def close(self):
        """No client can come back any more, not even while something in the background runs on."""
        if self.client:
            self.dismiss()
        self.relay.watch(self.listener.fileno(), 0, None)
        self.listener.close()

    def dismiss(self):
        self.relay.watch(self.client.fileno(), 0, None)
        self.client.close()
        self.client = None


def tell(fd, answer):
    """Answers a client that came back: a line before the frames, which do not count it. False: it is gone
    again."""
    with contextlib.suppress(OSError):
        return os.write(fd, json.dumps(answer).encode() + b"\n") > 0  # the socket's buffer has room
    return False
