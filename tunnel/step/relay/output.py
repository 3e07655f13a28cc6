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
        try:
            self.start()
        except OSError as err:
            self.trouble = words(err)
        if self.sink < 0:
            return
        data = json.dumps([name, line and json.dumps(line), line and line["type"]]).encode() + b"\n"
        self.queue.append(data)
        self.size += len(data)
        self.flush()

    def full(self):
        return self.size > OUTPUT_QUEUE

    def start(self):
        if self.sink >= 0:
            return
        orders, sink, answers, out = os.pipe() + os.pipe()
        try:
            self.pid = fork((2, orders, out), write_output, orders, out, self.relay.environment)
        except OSError:
            for fd in (orders, sink, answers, out):
                os.close(fd)
            raise
        os.close(orders)
        os.close(out)
        self.sink = sink
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
            self.trouble = "the process that writes it ended"
        for line in data.splitlines():
            self.trouble, gone = json.loads(line.decode())
            self.relay.outputs.discard(gone)

    def close(self):
        """Waits for a while until everything is written."""
        if self.sink < 0:
            return
        late = time.monotonic() + OUTPUT_PATIENCE
        while self.queue and time.monotonic() < late:
            self.flush()
            select.select([], [self.sink], [], 0.1)
        os.close(self.sink)
        with contextlib.suppress(OSError):
            while time.monotonic() < late and not os.waitpid(self.pid, os.WNOHANG)[0]:
                time.sleep(0.02)


def write_output(orders, answers, environment):
    """The process that writes, until the relay has ended."""
    os.setsid()
    os.umask(0o077)
    for s in ("HUP", "INT", "TERM"):
        signal.signal(getattr(signal, "SIG" + s), signal.SIG_IGN)
    Output(os.path.expanduser("~/.tunctl/output"), answers, environment).serve(orders)


class Output:
    """The files of cells."""

    def __init__(self, root, answers, environment):
        self.root, self.answers, self.environment = root, answers, environment
        self.waiting = collections.OrderedDict()  # lines that are not written yet, by file
        self.ended = set()  # the files of cells that ended
        self.beyond = {}  # bytes that were too many, by file
        self.sizes = {}  # of sessions

    def serve(self, orders):
        inbox, due = [], None
        while True:
            wait = None if due is None else max(0, due - time.monotonic())
            if select.select([orders], [], [], wait)[0]:
                data = os.read(orders, READ_SIZE)
                if not data:
                    self.write()
                    return
                inbox.append(data)
                if b"\n" in data:
                    lines = b"".join(inbox).split(b"\n")
                    inbox = [lines.pop()]
                    for line in lines:
                        self.add(*json.loads(line.decode()))
                due = due or time.monotonic() + OUTPUT_EVERY
            if due is not None and time.monotonic() >= due:
                self.write()
                due = time.monotonic() + OUTPUT_EVERY if self.waiting or self.ended else None

    def add(self, name, line, kind):
        if line is None:
            self.waiting.pop(name, None)
            self.beyond.pop(name, None)
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(self.root, name))
            return
        session, last = os.path.dirname(name), kind == "end"
        if last:
            self.ended.add(name)
        if kind == "cell":
            line = json.dumps(dict(json.loads(line), root=server_root(self.environment)))
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
        for path in glob.glob(os.path.join(glob.escape(folder), "*.jsonl")):
            with contextlib.suppress(OSError):  # another process removed it
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
                append_lines(os.path.join(self.root, name), lines)
                del self.waiting[name]
            except OSError as err:
                trouble = words(err)
        gone = [n for n in self.ended if n not in self.waiting and not os.path.exists(os.path.join(self.root, n))]
        self.ended.difference_update(gone)
        for name in gone or [""]:  # the user has removed them
            os.write(self.answers, json.dumps([trouble, name]).encode() + b"\n")


def append_lines(path, lines):
    """Appends all lines to a file, or none."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    size = os.fstat(fd).st_size
    try:
        with os.fdopen(fd, "a") as f:
            f.write("".join(line + "\n" for line in lines))
    except OSError:
        os.truncate(path, size)
        raise


@functools.lru_cache(maxsize=None)  # the server may have ended before a last cell is written
def server_root(environment):
    """The folder that the paths of a Jupyter server are relative to; "": it is not known."""
    where, env = environment.find()
    if where != "server":
        return ""
    pid = environment.found[1].pid
    data = env.get(b"JUPYTER_DATA_DIR") or os.path.join(env.get(b"HOME", b"/"), b".local/share/jupyter")
    folder = os.fsdecode(env.get(b"JUPYTER_RUNTIME_DIR") or os.path.join(data, b"runtime"))
    for name, key in (("jpserver", "root_dir"), ("nbserver", "notebook_dir")):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError), open("%s/%s-%d.json" % (folder, name, pid)) as f:
            return str(json.load(f)[key])
    with contextlib.suppress(OSError):
        return os.readlink("/proc/%d/cwd" % pid)
    return ""
