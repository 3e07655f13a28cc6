OUTPUT_LIMIT = 64 << 20  # bytes of one session
OUTPUT_DAYS = 30
OUTPUT_EVERY = 5  # seconds
OUTPUT_LOOK = 25  # more of them until it is looked which files the user has removed, if nothing is to be written
OUTPUT_QUEUE = 1 << 20  # bytes that wait to be written
OUTPUT_PATIENCE = 10  # seconds for the rest at the end


class Writer:
    """Writes what was collected to ~/.tunctl/output, by helpers: a home may hang."""

    def __init__(self, relay):
        self.relay = relay
        self.waiting = collections.OrderedDict()  # lines that are not written yet, by file
        self.size = 0  # of all these lines
        self.sizes = {}  # of folders
        self.due = 0.0  # when lines are written
        self.helper = None  # writes now
        self.count = itertools.count()
        self.trouble = ""

    def new_file(self, folder):
        return "%s/%s-%d-%d.jsonl" % (folder, time.strftime("%Y%m%dT%H%M%S"), os.getpid(), next(self.count))

    def put(self, name, line):
        """Appends a line to a file; an empty one removes it."""
        if not self.waiting:
            self.due = time.monotonic() + OUTPUT_EVERY
        folder = os.path.dirname(name)
        self.waiting.setdefault(name, []).append(line)
        self.size += len(line)
        self.sizes[folder] = self.sizes.get(folder, 0) + len(line)
        if self.full():
            self.due = 0.0

    def full(self, folder="", more=0):
        return self.size > OUTPUT_QUEUE or self.sizes.get(folder, 0) + more > OUTPUT_LIMIT

    def start(self):
        self.due = time.monotonic() + OUTPUT_EVERY
        try:
            self.helper = Helper(self.relay, self.written, write_output, self.waiting, self.relay.environment, list(self.relay.outputs))
        except OSError as err:
            self.trouble = words(err)

    def written(self, result):
        self.helper = None
        done, sizes, gone, self.trouble = result or ({}, {}, [], "the process that writes it ended")
        self.sizes.update(sizes)
        self.relay.outputs.difference_update(gone)
        for name, count in done.items():
            lines = self.waiting[name]
            self.size -= sum(map(len, lines[:count]))
            del lines[:count]
            if not lines:
                del self.waiting[name]

    def end(self, late):
        """Waits until everything is written, but not for ever."""
        self.trouble = ""
        while self.waiting and not self.trouble and time.monotonic() < late:
            if not self.helper:
                self.start()
            else:
                self.helper.wait(late)


def write_output(waiting, environment, outputs):
    """Writes lines to their files. Returns how many of each, the sizes of folders with new files, those of the files before
    that are gone, and what failed."""
    os.setsid()
    os.umask(0o077)
    for s in ("HUP", "INT", "TERM"):
        signal.signal(getattr(signal, "SIG" + s), signal.SIG_IGN)
    root = os.path.expanduser("~/.tunctl/output")
    done, sizes, trouble = {}, {}, ""
    gone = [name for name in outputs if name not in waiting and not os.path.exists(os.path.join(root, name))]
    for name, lines in waiting.items():
        path, folder = os.path.join(root, name), os.path.dirname(name)
        try:
            if not lines[-1]:
                with contextlib.suppress(OSError):
                    os.unlink(path)
            elif append_lines(path, lines, environment):
                sizes[folder] = clean(os.path.join(root, folder))
            done[name] = len(lines)
        except OSError as err:
            trouble = words(err)
    return done, sizes, gone, trouble


def append_lines(path, lines, environment):
    """Appends all lines to a file, or none. Reports whether it is new."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    size = os.fstat(fd).st_size
    if not size:
        lines[0] = json.dumps(dict(json.loads(lines[0]), root=server_root(environment))) + "\n"
    try:
        with os.fdopen(fd, "a") as f:
            f.write("".join(lines))
    except OSError:
        os.truncate(path, size)
        raise
    return not size


def clean(folder):
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


@functools.lru_cache(maxsize=None)  # the server may have ended before the last cells are written
def server_root(environment):
    """The folder that the paths of a Jupyter server are relative to; "": it is not known."""
    where, env = environment.find()
    if where != "server":
        return ""
    pid = environment.found[1].pid
    data = env.get(b"JUPYTER_DATA_DIR") or os.path.join(env.get(b"HOME", b"/"), b".local/share/jupyter")
    folder = os.fsdecode(env.get(b"JUPYTER_RUNTIME_DIR") or os.path.join(data, b"runtime"))
    for name, key in (("jpserver", "root_dir"), ("nbserver", "notebook_dir")):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            with open("%s/%s-%d.json" % (folder, name, pid)) as f:
                return str(json.load(f)[key])
    with contextlib.suppress(OSError):
        return os.readlink("/proc/%d/cwd" % pid)
    return ""
