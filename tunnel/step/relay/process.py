class Process:
    """A process of this user."""

    def __init__(self, pid):
        self.pid = pid
        with open("/proc/%d/stat" % pid, "rb") as f:
            fields = f.read().rpartition(b")")[2].split()
        self.state, self.parent, self.session, self.started = fields[0], int(fields[1]), int(fields[3]), int(fields[19])

    def alive(self):
        try:
            now = Process(self.pid)
        except (OSError, IndexError):
            return False
        return now.started == self.started and now.state not in (b"Z", b"X")

    def kill(self, number):
        if not self.alive():
            return  # its pid may be another's by now
        try:
            os.kill(self.pid, number)
        except OSError:
            pass

    def files(self):
        folder = "/proc/%d/fd" % self.pid
        try:
            for name in os.listdir(folder):
                try:
                    yield os.readlink(folder + "/" + name)
                except OSError:
                    pass
        except OSError:
            pass

    def holds(self, names):
        return any(name in names for name in self.files())

    def environ(self):
        """Its environment when it was started, or None."""
        try:
            with open("/proc/%d/environ" % self.pid, "rb") as f:
                return dict(line.split(b"=", 1) for line in f.read().split(b"\0") if b"=" in line)
        except OSError:
            return None

    def __eq__(self, other):
        return self.pid == other.pid and self.started == other.started

    def __hash__(self):
        return self.pid


def processes():
    """All processes of this user, the oldest first."""
    found, uid = [], os.getuid()
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                if os.stat("/proc/" + name).st_uid == uid:
                    found.append(Process(int(name)))
            except (OSError, IndexError):
                pass  # it has ended
    return sorted(found, key=lambda p: (p.started, p.pid))


def descendants(found):
    """Those of the processes that this one started, at any remove."""
    ours, more = {os.getpid()}, True
    while more:
        more = {p.pid for p in found if p.parent in ours} - ours
        ours |= more
    ours.discard(os.getpid())
    return [p for p in found if p.pid in ours]


def adopt_orphans():
    """Becomes the parent of processes whose parent has ended."""
    try:
        import ctypes
        ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
    except (ImportError, OSError, AttributeError):
        pass


def inside(job):
    """Whether this process is part of the job."""
    if not job:
        return False
    if belongs({k.encode(): v.encode() for k, v in os.environ.items() if k in JOB_IDS}, job):
        return True
    try:
        with open("/proc/self/cgroup") as f:
            parts = f.read().replace("\n", "/").split("/")
    except OSError:
        return False
    return "job_" + job in parts or job in parts


JOB_IDS = ("SLURM_JOB_ID", "PBS_JOBID", "JOB_ID", "SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID")


def belongs(env, job):
    """Whether a process with that environment is of the job."""
    def get(name):
        return env.get(name.encode(), b"").decode("utf-8", "replace")
    pbs = get("PBS_JOBID")
    return job in (get("SLURM_JOB_ID"), get("JOB_ID"), pbs, pbs.partition(".")[0],
                   get("SLURM_ARRAY_JOB_ID") + "_" + get("SLURM_ARRAY_TASK_ID"))
