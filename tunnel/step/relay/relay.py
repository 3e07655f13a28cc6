ACK_EVERY = 256 << 10
ANSWER_TIME = 0.02  # seconds in which most servers answer a request
KILL_AFTER = 2  # seconds from the hangup
USED_FOR = 150  # seconds after the end of a program in which the job still counts as used
AWAY_AFTER = 20  # seconds without a word of the client, which sends a ping every 15

# What is done with a frame for a channel of a class.
FRAMES = {
    DATA: (Channel, lambda c, payload: c.write(payload)),
    EOF: (Channel, lambda c, _: c.write_eof()),
    WINDOW: (Channel, lambda c, payload: c.add_credit(NUMBER.unpack(payload)[0])),
    CLOSE: (Channel, lambda c, _: c.hang_up()),
    RESIZE: (Program, lambda c, payload: c.resize(payload)),
    SIGNAL: (Program, lambda c, payload: c.signal(payload.decode())),
    EOW: (Program, lambda c, _: c.stop_reading()),
    CELL: (Kernel, lambda c, payload: c.request(json.loads(payload.decode()))),
    DONE: (Kernel, lambda c, payload: c.cell_done(payload.decode())),
    TAKEN: (Kernel, lambda c, payload: c.take(COUNT.unpack(payload)[0])),
}


class Relay:
    """The frames' two ends and the loop."""

    def __init__(self, options):
        self.environment = Environment(options["job"], options["port"])
        # A program under pbs_attach has neither the job's environment nor its control group.
        self.inside = bool(os.environ.pop("TUNCTL_INSIDE", "")) or inside(options["job"])
        # Whatever a program leaves running ends with the step or the job, or is meant to
        # stay, as with sshd. Outside of the job nothing else would end it.
        self.chase = bool(options["job"]) and not self.inside
        self.step = "SLURM_STEP_ID" in os.environ  # of which this is the first process
        self.stopped = False  # by a signal
        self.channels = {}  # open ones, by number
        self.programs = {}  # running ones, by pid; their channel may be closed
        self.connecting = set()
        self.owners = {}  # watched file descriptors: (events, callback)
        self.inbox = bytearray()
        self.way = Way(0, 1)
        self.kernels = []  # with a page, or kept for it
        self.is_full = False  # WebSockets were not read since too much is kept
        self.writer = Writer(self)
        self.outputs = set()  # the files of cells that ended without their page
        self.told = None  # what the client knows of these
        self.mark = None  # while a program of the user runs
        self.used = -USED_FOR
        self.entrance = None
        self.heard = time.monotonic()
        self.was_away = False
        self.silence = options["silence"]  # how long it lives if it hears nothing
        self.hold = self.silence  # the same while something waits for the client
        self.flush_at = 0.0  # what is sent waits until then for an answer of a server
        self.due = 0.0  # when the loop goes on, whatever happens
        self.ending = False
        self.all = select.poll()
        self.few = select.poll()  # what is watched also if nothing more should be read for the client
        self.died, wake = os.pipe()
        os.set_blocking(self.died, False)
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(wake)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for end in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(end, lambda *_: self.stop())
        if options.get("socket"):
            self.entrance = Entrance(self, options["socket"], options["secret"])
            if self.inside:
                self.hold = options["hold"]

    def run(self, mark):
        if self.chase or self.step:
            adopt_orphans()
        os.write(1, mark.encode() + b"\n")
        for fd in (0, 1):
            os.set_blocking(fd, False)
        self.send_hello()
        self.watch(0, READ, self.receive, True)
        self.watch(self.died, READ, self.reap, True)
        try:
            while not self.ending:
                self.flush()
                self.due = min(at for at, _ in self.deadlines())
                self.turn(self.few if self.way.busy() else self.all, max(0, self.due - time.monotonic()))
                self.expire()
        finally:
            self.finish()
        if self.step and not self.stopped:
            self.await_background()

    def turn(self, watched, wait):
        """Waits until something can be done, and does it."""
        for fd, events, owner in [(fd, events, self.owners[fd]) for fd, events in watched.poll(wait * 1000)]:
            # A callback may close a file descriptor, and open another of the same number.
            if self.owners.get(fd) == owner:
                wanted, callback = owner
                callback(fd, events & wanted or wanted)  # what is neither is an error

    def send_hello(self):
        hello = {"node": socket.gethostname(), "inside": self.inside, "environ": self.environment.find()[0], "where": where(),
                 "kernels": [{name: k.about.get(name, "") for name in ("id", "session", "origin", "journal")} for k in self.kernels[-100:]]}
        self.send(0, HELLO, json.dumps(hello).encode())

    def deadlines(self):
        """When the loop goes on, and what is done then."""
        yield self.gone_at(), self.end  # the client is gone, and nothing closed the pipe
        if self.entrance and self.entrance.client:
            yield self.entrance.deadline, self.entrance.dismiss
        for c in self.connecting:
            yield c.deadline, functools.partial(c.refuse, os.strerror(errno.ETIMEDOUT))
        for k in self.kernels:
            if k.works():
                yield 0, k.collect
            elif not k.page:
                yield k.until, k.expire
        if (self.writer.waiting or self.outputs) and not self.writer.helper:
            yield self.writer.due + (0 if self.writer.waiting else OUTPUT_LOOK), self.writer.start
        if self.mark:
            yield max(time.monotonic() + 1, self.used + USED_FOR), None
        if self.channels and not self.away():
            yield self.heard + AWAY_AFTER, None
        if self.way.busy():
            yield self.way.moved + STUCK_AFTER, None
        if time.monotonic() < self.flush_at:
            yield self.flush_at, None

    def gone_at(self):
        """When a client that sends nothing more counts as gone."""
        return self.heard + (self.hold if self.needed() else self.silence)

    def away(self):
        """Whether nobody answers at the moment."""
        return self.way.source < 0 or time.monotonic() >= self.heard + AWAY_AFTER

    def needed(self):
        """Whether something waits for the client: a channel, or the end of one."""
        return self.channels or self.kernels or self.way.kept.begin < self.way.owed

    def expire(self):
        if self.away() != self.was_away:
            self.was_away = not self.was_away
            for c in list(self.channels.values()):
                c.client_moved()
        now = time.monotonic()
        if now >= self.due:
            for do in [do for at, do in self.deadlines() if do and at <= now]:
                do()
        if self.is_full and self.has_room():
            for c in set(self.channels.values()).union(self.kernels):
                c.watch()
        if self.kernels or self.told:
            self.tell_kernels()
        self.mark_use(now)

    def mark_use(self, now):
        """Has a socket whose name tells the script of the job, which may end a job that is not used, that
        a shell, a command, a copy or an editor runs here. It ends with this process."""
        if any(p.uses for p in self.programs.values()):
            self.used = now
        if self.mark and now >= self.used + USED_FOR:
            self.mark.close()
            self.mark = None
        elif not self.mark and now < self.used + USED_FOR:
            self.mark = socket.socket(socket.AF_UNIX)
            self.mark.bind("\0tunctl-inside-%d-%d" % (os.getuid(), os.getpid()))

    def has_room(self):
        """Whether more may be kept of what WebSockets carry."""
        def full():
            spools = [c.spool for c in set(self.channels.values()).union(self.kernels) if isinstance(c, Connection)]
            return sum(len(s) for s in spools) >= SPOOL_LIMIT or sum(len(s.tail) for s in spools) >= TAIL_LIMIT
        if full():
            for k in self.kernels:
                k.make_room()
        self.is_full = full()
        return not self.is_full

    def tell_kernels(self):
        """Tells the client what becomes of cells whose page is gone."""
        cells = [cell for k in self.kernels if not k.page for cell in k.cells.values()]
        now = {"running": len(cells), "waiting": sum(cell.waits for cell in cells), "finished": len(self.outputs),
               "trouble": self.writer.trouble}
        if now != self.told and self.way.sink >= 0 and self.way.unsent() < OUT_LIMIT:
            self.told = now
            self.send(0, KERNELS, json.dumps(now).encode())

    def watch(self, fd, events, callback, always=False):
        """Calls callback(fd, events) when one of the events can happen, always or only if more should be
        read for the client; 0 ends that."""
        self.owners[fd] = events, callback
        for watched, wanted in ((self.all, events), (self.few, always and events)):
            if wanted:
                watched.register(fd, wanted)
            else:
                with contextlib.suppress(KeyError):
                    watched.unregister(fd)

    def receive(self, fd, events):
        if not events & READ:
            return  # the loop writes
        try:
            data = os.read(fd, FRAME_LIMIT)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if not data:
            self.lost()
            return
        self.heard = time.monotonic()
        self.way.received += len(data)
        inbox, start, way = self.inbox, 0, self.way
        inbox += data
        while len(inbox) - start >= HEADER.size and not self.ending and self.way is way:  # what follows its END counts no more
            number, kind, length = HEADER.unpack_from(inbox, start)
            if length > FRAME_LIMIT:
                sys.stderr.write("the relay got what is not a frame\n")
                self.end()
                return
            after = start + HEADER.size + length
            if after > len(inbox):
                break
            with memoryview(inbox) as view:
                payload = bytes(view[start + HEADER.size:after])
            start = after
            self.handle(number, kind, payload)
        del inbox[:start]
        if self.way.received >= self.way.told + ACK_EVERY:
            self.acknowledge()

    def acknowledge(self):
        self.way.told = self.way.received
        self.send(0, ACK, COUNT.pack(self.way.received))

    def lost(self):
        """The way to the client was lost. What runs for it goes on, if it can come back."""
        if self.entrance and self.needed():
            self.leave()
        else:
            self.end()

    def leave(self):
        for fd in {self.way.source, self.way.sink} - {-1}:
            self.watch(fd, 0, None)
            release(fd)
        self.way.source = self.way.sink = -1

    def come_back(self, fd, new):
        """The client has come back, over a socket. If it is a new one, it takes over what is kept for pages;
        everything else was the last one's."""
        if new:
            self.depart()
        self.leave()
        if new:
            self.ending, self.way, self.told = False, Way(), None
            self.inbox.clear()
        self.heard = time.monotonic()
        os.set_blocking(fd, False)
        self.way.open(fd)
        paused = sum(c.credit <= 0 for c in self.channels.values())
        if not tell(fd, {"received": self.way.received, "paused": paused}):
            self.lost()
        elif new:
            self.send_hello()

    def depart(self):
        """The client ends. What is kept for pages stays, if somebody can come back for it."""
        for c in list(self.channels.values()):
            c.hang_up()
        if self.kernels and self.entrance:
            self.send(0, END, b"kept")
            self.way.write()
            self.leave()
            self.way = Way()
        else:
            self.end()

    def handle(self, number, kind, payload):
        channel = self.channels.get(number)
        if kind == PING:
            self.send(0, PING)
            self.acknowledge()
        elif kind == ACK:
            if not self.way.acknowledge(COUNT.unpack(payload)[0]):
                sys.stderr.write("the client acknowledged what it was not sent\n")
                self.end()
        elif kind == END:
            self.depart()
        elif kind == SERVER:
            self.environment.set_port(NUMBER.unpack(payload)[0])
        elif kind == OPEN and not channel:
            self.open(number, json.loads(payload.decode()))
        elif kind in FRAMES and isinstance(channel, FRAMES[kind][0]):  # else it was closed meanwhile
            FRAMES[kind][1](channel, payload)

    def open(self, number, request):
        try:
            if request["kind"] == "kernel":
                kept = [k for k in self.kernels if k.is_of(request["kernel"])]
                if not kept:
                    raise OSError(errno.ENOENT, "nothing is kept for this page")
                kept[0].attach(number, request["kernel"])
            elif request["kind"] in ("tcp", "unix"):
                (Kernel if request.get("kernel") and self.entrance else Connection)(self, number, request)
            else:
                Program(self, number, request)
        except OSError as err:
            if number in self.channels:
                self.channels[number].drop()
            self.send(number, REFUSED, json.dumps({"message": words(err), "errno": err.errno}).encode())

    def send(self, number, kind, payload=b""):
        if kind != OPENED:
            self.flush_at = 0.0
        self.way.add(number, kind, payload)

    def await_answer(self):
        """Has OPENED wait for the server's answer to what was sent with OPEN. Of two small writes in a
        row, srun's TCP connection holds up the second one until the first is acknowledged: 40 ms."""
        if not self.way.unsent():
            self.flush_at = time.monotonic() + ANSWER_TIME

    def flush(self):
        if time.monotonic() < self.flush_at:
            return
        if not self.way.write():
            self.lost()
        if self.way.sink >= 0:
            events = (READ if self.way.sink == self.way.source else 0) | (WRITE if self.way.unsent() else 0)
            self.watch(self.way.sink, events, self.receive, True)

    def reap(self, fd, _):
        with contextlib.suppress(OSError):
            os.read(fd, 512)
        with contextlib.suppress(OSError):
            for pid, status in iter(lambda: os.waitpid(-1, os.WNOHANG), (0, 0)):
                program = self.programs.pop(pid, None)
                if program:
                    program.exited(status)

    def end(self):
        self.ending = True

    def stop(self):
        self.stopped = True
        self.end()

    def finish(self):
        """Ends all programs: nothing of ours stays on the node."""
        if self.entrance:
            self.entrance.close()
        if self.mark:
            self.mark.close()
        self.send(0, END)
        self.way.write()
        self.finish_kernels()
        doomed = self.running()
        self.leave()  # whoever waits for the relay's output need not wait longer
        for c in list(self.channels.values()):
            c.close_all()
        for p in doomed:
            p.kill(signal.SIGHUP)
            p.kill(signal.SIGCONT)
        late = time.monotonic() + KILL_AFTER
        while doomed and time.monotonic() < late:
            time.sleep(0.02)
            self.reap(self.died, READ)
            doomed = {p for p in doomed if p.alive()}
        for p in doomed | self.running():  # some may be new
            p.kill(signal.SIGKILL)

    def finish_kernels(self):
        late = time.monotonic() + OUTPUT_PATIENCE
        for k in self.kernels:
            while k.cells and k.collects() and k.collected < k.spool.end and time.monotonic() < late:
                k.collect()
                if self.writer.full():
                    self.writer.end(late)
                    k.make_room()
            if k.collects():
                k.end_all("the job ended" if self.stopped else "tunctl inside the job ended")
        self.writer.end(late)

    def running(self):
        """The processes that end with the relay."""
        found = [p for p in processes() if not self.writer.helper or p.pid != self.writer.helper.pid]
        if self.chase:
            return set(descendants(found))
        ends = set(self.programs.values()).union(c for c in self.channels.values() if isinstance(c, Program))
        return {p for c in ends for p in c.tied(found)}

    def await_background(self):
        """Waits for what was put in the background: Slurm would end it with the first process of the step."""
        default_signals()
        for fd in (0, 1, 2):
            release(fd)
        with contextlib.suppress(ChildProcessError):
            while True:
                os.waitpid(-1, 0)

