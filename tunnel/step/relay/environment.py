# Variables that belong to another terminal, login or node, to one process alone, such as
# the number of a file descriptor that it got from its parent, or to the relay's own step.
ELSEWHERE = ("DISPLAY", "XAUTHORITY", "WAYLAND_DISPLAY", "DBUS_SESSION_BUS_ADDRESS", "TERM", "LINES", "COLUMNS", "TMUX",
             "TMUX_PANE", "STY", "PWD", "OLDPWD", "SHLVL", "_")
ELSEWHERE_PREFIXES = ("SSH_", "VSCODE_")
PROCESS = ("NODE_UNIQUE_ID", "NOTIFY_SOCKET", "INVOCATION_ID", "JOURNAL_STREAM", "SYSTEMD_EXEC_PID", "MAINPID", "GUNICORN_FD",
           "GUNICORN_PID", "WERKZEUG_SERVER_FD", "WERKZEUG_RUN_MAIN", "JPY_PARENT_PID", "PMI_FD")
PROCESS_PREFIXES = ("NODE_CHANNEL_", "CODE_SERVER_", "ELECTRON_", "LISTEN_", "WATCHDOG_")
STEP = ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_GTIDS", "SLURM_TASK_PID", "SLURM_STEPID",
        "SLURM_DISTRIBUTION", "SLURM_UMASK", "SLURM_OVERLAP")
STEP_PREFIXES = ("SLURM_STEP_", "SLURM_SRUN_", "SLURM_CPU_BIND", "SLURM_LAUNCH_NODE_", "PMI_", "PMIX_")
CONTAINERS = (b"APPTAINER_CONTAINER", b"SINGULARITY_CONTAINER", b"container")


class Environment:
    """The environment of programs: the job's."""

    KEPT = 2  # seconds until the server is looked for again

    def __init__(self, job, port):
        self.job, self.port = job, port
        self.found = None  # where from, the process, and its environment
        self.until = 0

    def set_port(self, port):
        self.port, self.found = port, None

    def find(self):
        """Where the environment is from, and what it is."""
        now = time.monotonic()
        if not self.found or not (self.found[1] and self.found[1].alive()) or self.found[0] != "server" and now > self.until:
            self.found = self.search()
            self.until = now + self.KEPT
        return self.found[0], dict(self.found[2])

    def search(self):
        own = Process(os.getpid())
        everyone = processes() if self.port or self.job else []
        ours = {p.pid for p in descendants(everyone) + [own]}
        others = [p for p in everyone if p.pid not in ours]
        candidates = [("server", p) for p in listeners(self.port, others)] + [("job", p) for p in others if self.job]
        for source, p in candidates:
            env = p.environ()
            # The paths in a container's environment are not this node's.
            if not env or any(name in env for name in CONTAINERS):
                continue
            if source == "server" or belongs(env, self.job) and not relay(p):
                return source, p, env
        env = {k: v for k, v in os.environb.items() if not named(k, STEP, STEP_PREFIXES)}
        return "step", own, env

    def make(self, request):
        """The environment of one program."""
        env = {k: v for k, v in self.find()[1].items() if not named(k, ELSEWHERE + PROCESS, ELSEWHERE_PREFIXES + PROCESS_PREFIXES)}
        folder = env.get(b"XDG_RUNTIME_DIR")
        if folder and not (os.path.isdir(folder) and os.stat(folder).st_uid == os.getuid()):
            del env[b"XDG_RUNTIME_DIR"]
        folder = env.get(b"TMPDIR")
        if folder and not (os.path.isdir(folder) and os.access(folder, os.W_OK | os.X_OK)):
            del env[b"TMPDIR"]
        me = user()
        own = os.environb.get(b"HOME", b"")  # as the login node has it
        env[b"HOME"] = own if os.path.isdir(own) else os.fsencode(me.pw_dir)
        env[b"USER"] = env[b"LOGNAME"] = os.fsencode(me.pw_name)
        env[b"SHELL"] = os.fsencode(me.pw_shell or "/bin/sh")
        env.setdefault(b"PATH", b"/usr/local/bin:/usr/bin:/bin")
        for name, value in request.get("env") or ():
            env[decode(name)] = decode(value)
        if request.get("pty"):
            env[b"TERM"] = request["pty"]["term"].encode()
        return env


def named(name, names, prefixes):
    name = os.fsdecode(name)
    return name in names or name.startswith(prefixes)


def relay(process):
    """Whether a process is a relay, perhaps of another session."""
    return b"tunctl-relay" in proc("%d/cmdline" % process.pid).split(b"\0")


def listeners(port, candidates):
    """The processes that listen on a port, the oldest first."""
    if not port:
        return
    sockets = set()
    for line in (proc("net/tcp") + proc("net/tcp6")).decode().splitlines():
        row = line.split()
        if len(row) > 9 and row[3] == "0A" and row[1].rpartition(":")[2] == "%04X" % port and row[7] == str(os.getuid()):
            sockets.add("socket:[%s]" % row[9])
    if sockets:
        for p in candidates:
            if p.holds(sockets):
                yield p
