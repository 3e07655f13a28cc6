OUTPUT_LIMIT = 64 << 20  # bytes of one session
OUTPUT_DAYS = 30
OUTPUT_EVERY = 5  # seconds
OUTPUT_QUEUE = 1 << 20  # bytes that wait for the process that writes
OUTPUT_PATIENCE = 10  # seconds for the rest at the end


class Writer:
    """Writes what was collected to ~/.tunctl/output, in a process of its own: a home may hang."""

    def __init__(self, relay):
        self.relay = relay
        self.pid = self.sink = -1
        self.queue = collections.deque()
        self.size = 0
        self.count = itertools.count()
        self.trouble = ""

    def new_file(self, session):
        name = "%s-%d-%d.jsonl" % (time.strftime("%Y%m%dT%H%M%S"), os.getpid(), next(self.count))
        return os.path.join(re.sub(r"[^\w.-]", "_", session), name)

    def put(self, name, line):
        """Appends a line to a file, or removes it."""
        self.start()
        data = json.dumps([name, line and json.dumps(line), bool(line) and line["type"] == "end"]).encode() + b"\n"
        self.queue.append(data)
        self.size += len(data)
        self.flush()

    def full(self):
        return self.size > OUTPUT_QUEUE

    def start(self):
        if self.sink >= 0:
            return
        (orders, self.sink), (answers, out) = os.pipe(), os.pipe()
        self.pid = fork((2, orders, out), write_output, orders, out)
        os.close(orders)
        os.close(out)
        os.set_blocking(self.sink, False)
        self.relay.watch(answers, READ, self.answered, True)

    def flush(self, *_):
        while self.queue:
            try:
                n = os.write(self.sink, self.queue[0])
            except (BlockingIOError, InterruptedError):
                break
            except OSError:
                self.queue.clear()
                self.size = 0
                break
            self.size -= n
            self.queue[0] = memoryview(self.queue[0])[n:]
            if not self.queue[0]:
                self.queue.popleft()
        self.relay.watch(self.sink, WRITE if self.queue else 0, self.flush, True)

    def answered(self, fd, _):
        data = os.read(fd, READ_SIZE)
        if not data:
            self.relay.watch(fd, 0, None)
            os.close(fd)
        else:
            self.trouble = data.decode()

    def close(self):
        """Waits for a while until everything is written."""
        if self.sink < 0:
            return
        late = time.monotonic() + OUTPUT_PATIENCE
        while self.queue and time.monotonic() < late:
            self.flush()
            select.select([], [self.sink], [], 0.1)
        os.close(self.sink)
        while time.monotonic() < late:
            try:
                if os.waitpid(self.pid, os.WNOHANG)[0]:
                    break
            except OSError:
                break
            time.sleep(0.02)


def write_output(orders, answers):
    """The process that writes, until the relay has ended."""
    os.setsid()
    for s in ("HUP", "INT", "TERM"):
        signal.signal(getattr(signal, "SIG" + s), signal.SIG_IGN)
    Output(os.path.expanduser("~/.tunctl/output"), answers).serve(orders)


class Output:
    """The files of cells."""

    def __init__(self, root, answers):
        self.root, self.answers = root, answers
        self.waiting = collections.OrderedDict()  # lines that are not written yet, by file
        self.beyond = {}  # bytes that were too many, by file
        self.sizes = {}  # of sessions

    def serve(self, orders):
        inbox, due = [], None
        while True:
            wait = None if due is None else max(0, due - time.monotonic())
            data = b""
            if select.select([orders], [], [], wait)[0]:
                data = os.read(orders, READ_SIZE)
                inbox.append(data)
                if b"\n" in data:
                    lines = b"".join(inbox).split(b"\n")
                    inbox = [lines.pop()]
                    for line in lines:
                        self.add(*json.loads(line.decode()))
                due = due or time.monotonic() + OUTPUT_EVERY
                if not data:
                    due = 0
            if due is not None and time.monotonic() >= due:
                self.write()
                due = None
                if not data and wait is None:
                    return

    def add(self, name, line, last):
        if line is None:
            self.waiting.pop(name, None)
            self.beyond.pop(name, None)
            try:
                os.unlink(os.path.join(self.root, name))
            except OSError:
                pass
            return
        session = os.path.dirname(name)
        if session not in self.sizes:
            self.sizes[session] = self.clean(os.path.join(self.root, session))
        if last and name in self.beyond:
            self.waiting.setdefault(name, []).append(json.dumps({"type": "beyond", "bytes": self.beyond.pop(name)}))
        if not last and self.sizes[session] + len(line) > OUTPUT_LIMIT:
            self.beyond[name] = self.beyond.get(name, 0) + len(line)
            return
        self.sizes[session] += len(line)
        self.waiting.setdefault(name, []).append(line)

    def clean(self, folder):
        """Removes what is old, and returns how much is left."""
        size = 0
        os.makedirs(folder, 0o700, exist_ok=True)
        for name in os.listdir(folder):
            path = os.path.join(folder, name)
            found = os.stat(path)
            if time.time() - found.st_mtime > OUTPUT_DAYS * 86400:
                os.unlink(path)
            else:
                size += found.st_size
        return size

    def write(self):
        trouble = ""
        for name, lines in list(self.waiting.items()):
            try:
                fd = os.open(os.path.join(self.root, name), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
                with os.fdopen(fd, "a") as f:
                    f.write("".join(line + "\n" for line in lines))
                del self.waiting[name]
            except OSError as err:
                trouble = words(err)
        os.write(self.answers, trouble.encode() or b" ")
