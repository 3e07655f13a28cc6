PIPE_SIZE = 256 << 10

# RFC 4254, section 6.10.
SIGNALS = ("ABRT", "ALRM", "FPE", "HUP", "ILL", "INT", "KILL", "PIPE", "QUIT", "SEGV", "TERM", "USR1", "USR2")


class Program(Channel):
    """A program, behind a terminal or three pipes.

    When its channel closes, it gets a hangup: so does everything in its session that still
    holds the terminal or a pipe. What was put in the background with its output elsewhere,
    such as the server of an editor, stays: so it would with sshd.
    """

    def __init__(self, relay, number, request):
        Channel.__init__(self, relay, number)
        self.status = None
        self.held = set()
        self.terminal = request.get("pty")
        path, argv = command(request)
        env = relay.environment.make(request)
        self.uses = b"TUNCTL_METER" not in env  # the job: what only measures it does not
        opened = []  # in case one fails

        def pipe():
            pair = os.pipe()
            opened.extend(pair)
            with contextlib.suppress(OSError):
                fcntl.fcntl(pair[0], 1031, PIPE_SIZE)  # F_SETPIPE_SZ
            return pair

        try:
            if self.terminal:
                master, slave = os.openpty()
                opened += [master, slave]
                configure(slave, self.terminal)
                theirs, self.sink, self.sources = (slave, slave, slave), master, {master: DATA}
                self.held.add(os.ttyname(slave))
                env[b"SSH_TTY"] = os.fsencode(os.ttyname(slave))
            else:
                (i, self.sink), (out, o), (err, e) = pipe(), pipe(), pipe()
                theirs, self.sources = (i, o, e), {out: DATA, err: STDERR}
                self.held.update("pipe:[%d]" % os.fstat(fd).st_ino for fd in theirs)
            for fd in self.files():
                os.set_blocking(fd, False)
            self.pid = os.fork()
        except OSError:
            for fd in opened:
                os.close(fd)
            raise
        if not self.pid:
            execute(path, argv, env, theirs, bool(self.terminal))
        for fd in set(theirs):
            os.close(fd)
        relay.programs[self.pid] = self
        self.opened()

    def read_eof(self, fd):
        self.close(fd)
        self.finish()

    # A terminal: the end of its session's first process hangs it up, so that what is in the
    # background does not keep it open.
    lost = read_eof

    def exited(self, status):
        self.status = status
        self.finish()

    def finish(self):
        if self.status is None or self.sources or self.number not in self.relay.channels:
            return
        self.send(EOF)
        self.send(EXIT, json.dumps(exit_of(self.status)).encode())
        self.send(CLOSE)
        self.drop()

    def end_sink(self):
        if not self.terminal and self.sink >= 0:
            self.close(self.sink)

    def tied(self, found):
        """The processes that a hangup is for: the program, and those of its session that
        hold its terminal or pipes."""
        for p in found:
            if p.pid == self.pid and self.status is None or p.session == self.pid and p.holds(self.held):
                yield p

    def hang_up(self):
        running = self.status is None
        found = list(self.tied(processes())) if running else ()
        self.drop()
        for p in found:
            p.kill(signal.SIGHUP)
            p.kill(signal.SIGCONT)

    def resize(self, payload):
        if self.terminal and self.sink >= 0 and len(payload) == SIZE.size:
            set_size(self.sink, SIZE.unpack(payload))

    def signal(self, name):
        if name in SIGNALS and self.status is None:
            with contextlib.suppress(OSError):
                os.killpg(self.pid, getattr(signal, "SIG" + name))

    def stop_reading(self):
        for fd in [fd for fd, kind in self.sources.items() if kind == DATA and not self.terminal]:
            self.close(fd)
        self.finish()


def exit_of(status):
    if os.WIFEXITED(status):
        return {"status": os.WEXITSTATUS(status)}
    names = [s for s in SIGNALS if getattr(signal, "SIG" + s) == os.WTERMSIG(status)]
    name = names[0] if names else "SIG@openssh.com"  # as sshd does
    return {"signal": name, "core": os.WCOREDUMP(status)}


@functools.lru_cache(maxsize=1)  # at some sites the user database is slow
def user():
    try:
        return pwd.getpwuid(os.getuid())
    except KeyError:  # a node without the site's directory of users
        name = os.environ.get("USER", str(os.getuid()))
        home, shell = os.environ.get("HOME", "/"), os.environ.get("SHELL", "/bin/sh")
        return pwd.struct_passwd((name, "", os.getuid(), os.getgid(), "", home, shell))


def command(request):
    """The path and arguments of a program."""
    if request["kind"] == "sftp":
        path = sftp_server()
        return path, [path]
    shell = user().pw_shell or "/bin/sh"
    name = os.path.basename(shell)
    if request["kind"] == "shell":
        return shell, ["-" + name]
    return shell, [name, "-c", decode(request["command"])]


def sftp_server():
    """The path of sftp-server, which no distribution has in a PATH."""
    places = ["/usr/lib/openssh", "/usr/libexec/openssh", "/usr/lib/ssh", "/usr/libexec"]
    for place in places + os.environ.get("PATH", "").split(":"):
        path = os.path.join(place, "sftp-server")
        if place.startswith("/") and os.access(path, os.X_OK):
            return path
    raise OSError(errno.ENOENT, "sftp-server is not installed on this node")


def execute(path, argv, env, fds, terminal):
    """Turns this process, a fork, into a program."""
    try:
        os.setsid()
        if terminal:
            fcntl.ioctl(fds[0], termios.TIOCSCTTY, 0)
        default_signals()
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        for to, fd in enumerate(fds):
            os.dup2(fd, to)
        try:
            os.chdir(env[b"HOME"])
        except OSError as err:
            os.write(2, ("cannot change to the home directory: %s\r\n" % words(err)).encode())
            os.chdir("/")
        os.execve(path, argv, env)
    except BaseException as err:
        os.write(2, ("cannot run %s: %s\r\n" % (path, words(err))).encode())
    finally:
        os._exit(255)
