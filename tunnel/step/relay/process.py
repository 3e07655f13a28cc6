class Process:
    """A process of this user."""

    def __init__(self, pid):
        self.pid = pid
        fields = proc("%d/stat" % pid).rpartition(b")")[2].split()
        self.state, self.parent, self.session, self.started = fields[0], int(fields[1]), int(fields[3]), int(fields[19])

    def alive(self):
        with contextlib.suppress(IndexError):
            now = Process(self.pid)
            return now.started == self.started and now.state not in (b"Z", b"X")
        return False

    def kill(self, number):
        if not self.alive():
            return  # its pid may be another's by now
        with contextlib.suppress(OSError):
            os.kill(self.pid, number)

    def holds(self, names):
        """Whether it has one of these files open."""
        folder = "/proc/%d/fd/" % self.pid
        with contextlib.suppress(OSError):
            for name in os.listdir(folder):
                with contextlib.suppress(OSError):
                    if os.readlink(folder + name) in names:
                        return True
        return False

    def environ(self):
        """Its environment when it was started, if that can be read."""
        return dict(line.split(b"=", 1) for line in proc("%d/environ" % self.pid).split(b"\0") if b"=" in line)


def proc(name):
    """A file of /proc; empty: it cannot be read."""
    with contextlib.suppress(OSError), open("/proc/" + name, "rb") as f:
        return f.read()
    return b""


def processes():
    """All processes of this user, the oldest first."""
    found, uid = [], os.getuid()
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError, IndexError):  # it has ended
                if os.stat("/proc/" + name).st_uid == uid:
                    found.append(Process(int(name)))
    return sorted(found, key=lambda p: (p.started, p.pid))


def descendants(found):
    """Those of the processes that this one started, at any remove."""
    ours, more = {os.getpid()}, True
    while more:
        more = {p.pid for p in found if p.parent in ours} - ours
        ours |= more
    return [p for p in found if p.pid in ours and p.pid != os.getpid()]


class Helper:
    """A process that does what may wait, and answers with JSON."""

    def __init__(self, relay, done, work, *args):
        self.relay, self.done, self.answer = relay, done, b""
        self.source, sink = os.pipe()
        try:
            self.pid = os.fork()
        except OSError:
            os.close(self.source)
            os.close(sink)
            raise
        if not self.pid:
            answer(sink, work, *args)
        os.close(sink)
        relay.watch(self.source, READ, self.read, True)

    def read(self, fd, _):
        data = os.read(fd, READ_SIZE)
        self.answer += data
        if not data:
            self.close()
            try:
                result = json.loads(self.answer.decode())
            except ValueError:
                result = None  # it has failed
            self.done(result)

    def wait(self, late):
        watched = select.poll()
        watched.register(self.source, READ)
        self.relay.turn(watched, max(0, late - time.monotonic()))

    def close(self):
        self.relay.watch(self.source, 0, None)
        os.close(self.source)


def answer(sink, work, *args):
    """Does the work in this process, a fork, and writes what it returns."""
    try:
        signal.set_wakeup_fd(-1)
        for name in os.listdir("/proc/self/fd"):
            if int(name) not in (2, sink):
                with contextlib.suppress(OSError):
                    os.close(int(name))
        os.write(sink, json.dumps(work(*args)).encode())
    finally:
        os._exit(0)


def default_signals():
    """Undoes what Python and the relay have changed."""
    signal.set_wakeup_fd(-1)
    for s in ("CHLD", "HUP", "INT", "PIPE", "TERM", "XFSZ"):
        signal.signal(getattr(signal, "SIG" + s), signal.SIG_DFL)


def adopt_orphans():
    """Becomes the parent of processes whose parent has ended."""
    with contextlib.suppress(ImportError, OSError, AttributeError):
        import ctypes
        ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER


def inside(job):
    """Whether this process is part of the job."""
    if not job:
        return False
    if belongs(os.environb, job):
        return True
    parts = os.fsdecode(proc("self/cgroup")).replace("\n", "/").split("/")
    return "job_" + job in parts or job in parts


def belongs(env, job):
    """Whether a process with that environment is of the job."""
    def get(name):
        return env.get(name.encode(), b"").decode("utf-8", "replace")
    pbs = get("PBS_JOBID")
    return job in (get("SLURM_JOB_ID"), get("JOB_ID"), pbs, pbs.partition(".")[0],
                   get("SLURM_ARRAY_JOB_ID") + "_" + get("SLURM_ARRAY_TASK_ID"))
