"""The relay: it runs programs and opens connections inside a job, for one client.

It is sent to python3 on standard input, and speaks frames there and on standard output;
protocol.go describes them. It needs Python 3.6 and nothing else. If that way is lost, the
client may come back by another, over a socket of the relay's own.

One thread, and no call that may wait but the selector's: a slow program or client of one
channel must not hold up the others. What may be buffered is bounded by windows for each
channel, and by OUT_LIMIT and KEPT_LIMIT on the way to the client.
"""
import sys

if sys.version_info < (3, 6):
    sys.stderr.write("python3 on this node is older than 3.6\n")
    sys.exit(127)

import binascii
import collections
import errno
import fcntl
import functools
import itertools
import json
import os
import pwd
import re
import selectors
import signal
import socket
import struct
import termios
import time

# As in protocol.go.
HELLO, PING, END, OPEN, OPENED, REFUSED, DATA, STDERR, EOF, WINDOW, CLOSE, EXIT, RESIZE, SIGNAL, EOW, SERVER, ACK = range(1, 18)
WINDOW_SIZE = 2 << 20
FRAME_LIMIT = 256 << 10
HEADER = struct.Struct(">IBI")
SIZE = struct.Struct(">HHHH")
NUMBER = struct.Struct(">I")
COUNT = struct.Struct(">Q")

READ_SIZE = 64 << 10
PIPE_SIZE = 256 << 10
OUT_LIMIT = 256 << 10  # beyond this, programs and connections are not read while the client takes something
KEPT_LIMIT = 32 << 20  # beyond this, they are not read at all
STUCK_AFTER = 1  # seconds in which a client took nothing
ACK_EVERY = 256 << 10
JOIN_LIMIT = 4 << 10
PROOF_LIMIT = 4 << 10
PROOF_TIMEOUT = 20  # seconds
CONNECT_TIMEOUT = 20  # seconds
ANSWER_TIME = 0.02  # seconds in which most servers answer a request
KILL_AFTER = 2  # seconds from the hangup
AWAY_AFTER = 20  # seconds without a word of the client, which sends a ping every 15

# RFC 6455, section 5.2.
WS_PING, WS_PONG, WS_CONTROL, WS_FINAL, WS_MASKED = 9, 10, 8, 0x80, 0x80
WS_HEAD_LIMIT = 64 << 10
WS_UPGRADE = re.compile(br"\r\nupgrade:[ \t]*websocket", re.IGNORECASE)

READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE

# RFC 4254, section 6.10.
SIGNALS = ("ABRT", "ALRM", "FPE", "HUP", "ILL", "INT", "KILL", "PIPE", "QUIT", "SEGV", "TERM", "USR1", "USR2")


class Way:
    """The bytes to the client and from it, over one way after another.

    Both sides count them. What the client has not acknowledged is kept: the way itself
    acknowledges nothing, since srun takes bytes that nobody will get."""

    def __init__(self):
        self.source, self.sink = 0, 1  # -1: the way was lost
        self.received = 0
        self.told = 0  # how much of that the client knows of
        self.unsent, self.unsent_size = collections.deque(), 0
        self.sent, self.sent_size = collections.deque(), 0  # and not acknowledged
        self.acked = 0
        self.reached = 0  # how far it was sent, over this way or another
        self.owed = 0  # up to where it ends what was sent on channels that this side closed
        self.moved = time.monotonic()  # when the client took something

    def add(self, number, kind, payload):
        if not self.unsent_size:
            self.moved = time.monotonic()
        append(self.unsent, HEADER.pack(number, kind, len(payload)))
        append(self.unsent, payload)
        self.unsent_size += HEADER.size + len(payload)
        if kind == CLOSE:
            self.owed = self.acked + self.sent_size + self.unsent_size

    def write(self):
        """Sends what the way takes; false: it was lost."""
        while self.unsent and self.sink >= 0:
            try:
                n = os.writev(self.sink, list(itertools.islice(self.unsent, 64)))
            except (BlockingIOError, InterruptedError):
                break
            except OSError:
                return False
            self.moved = time.monotonic()
            move(n, self.unsent, self.sent)
            self.unsent_size -= n
            self.sent_size += n
            self.reached = max(self.reached, self.acked + self.sent_size)
        return True

    def acknowledge(self, total):
        """Forgets what the client has; false: it cannot have that."""
        if total > self.reached:
            return False
        n = max(0, total - self.acked)  # an old one may come again over the next way
        sent = min(n, self.sent_size)  # the rest may be under way again: the client has it from another way
        move(sent, self.sent)
        move(n - sent, self.unsent)
        self.acked += n
        self.sent_size -= sent
        self.unsent_size -= n - sent
        return True

    def close(self):
        for fd in {self.source, self.sink} - {-1}:
            release(fd)
        self.source = self.sink = -1

    def open(self, fd):
        """Continues on another way, from the first byte that the client does not have."""
        self.source = self.sink = fd
        self.unsent.extendleft(reversed(self.sent))
        self.unsent_size += self.sent_size
        self.sent.clear()
        self.sent_size = 0
        self.told = self.received
        self.moved = time.monotonic()

    def busy(self):
        """Whether nothing more should be read for the client."""
        if self.unsent_size + self.sent_size > KEPT_LIMIT:
            return True
        return self.sink >= 0 and self.unsent_size > OUT_LIMIT and time.monotonic() < self.moved + STUCK_AFTER


def move(n, source, to=None):
    """Moves the first n bytes of a queue to the end of another, or drops them."""
    while n:
        data = source[0]
        if n < len(data):
            source[0] = memoryview(data)[n:]
            data = memoryview(data)[:n]
        else:
            source.popleft()
        if to is not None:
            append(to, data)
        n -= len(data)


def append(queue, data):
    """Appends bytes to a queue. Small ones are joined: each has a price in memory."""
    if len(data) >= JOIN_LIMIT:
        queue.append(data)
    elif queue and type(queue[-1]) is bytearray and len(queue[-1]) < JOIN_LIMIT:
        queue[-1] += data
    elif data:
        queue.append(bytearray(data))


def release(fd):
    """Closes a file descriptor; a standard one stays, as one that leads nowhere."""
    if fd > 2:
        os.close(fd)
        return
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, fd)
    os.close(null)


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
        relay.watch_always(self.listener.fileno(), READ, self.accept)

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
        self.relay.watch_always(client.fileno(), READ, self.read)

    def read(self, *_):
        # Byte by byte at the end, so that no frame is read with the line.
        try:
            data = self.client.recv(PROOF_LIMIT, socket.MSG_PEEK)
            data = self.client.recv(data.find(b"\n") + 1 or len(data))
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
            late = not proof.get("end") and proof["attempt"] <= self.attempt
            if proof["secret"] != self.secret or late or not self.relay.way.acknowledge(proof["received"]):
                raise ValueError
        except (ValueError, KeyError, TypeError):
            self.dismiss()
            return
        if proof.get("end"):
            tell(self.client.fileno(), {})
            self.relay.end()
            return
        self.attempt = proof["attempt"]
        client, self.client = self.client, None
        self.relay.watch_always(client.fileno(), 0, None)
        self.relay.come_back(client.detach())

    def expire(self, now):
        if self.client and now >= self.deadline:
            self.dismiss()

    def close(self):
        """No client can come back any more, not even while something in the background runs on."""
        if self.client:
            self.dismiss()
        self.relay.watch_always(self.listener.fileno(), 0, None)
        self.listener.close()

    def dismiss(self):
        self.relay.watch_always(self.client.fileno(), 0, None)
        self.client.close()
        self.client = None


def tell(fd, answer):
    """Answers a client that came back: a line before the frames, which do not count it. False: it is gone
    again."""
    try:
        os.write(fd, json.dumps(answer).encode() + b"\n")  # the socket's buffer has room
        return True
    except OSError:
        return False


def peer(client):
    """The user at the other end of a socket."""
    return struct.unpack("3i", client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[1]


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
        self.way = Way()
        self.entrance = None
        self.heard = time.monotonic()
        self.silence = options["silence"]  # how long it lives if it hears nothing
        self.hold = self.silence  # the same while something waits for the client
        self.flush_at = 0.0  # what is sent waits until then for an answer of a server
        self.ending = False
        self.all = selectors.DefaultSelector()
        self.few = selectors.DefaultSelector()  # what is watched also if nothing more should be read for the client
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
        hello = {"node": socket.gethostname(), "inside": self.inside, "environ": self.environment.find()[0], "where": where()}
        os.write(1, mark.encode() + b"\n")
        for fd in (0, 1):
            os.set_blocking(fd, False)
        self.send(0, HELLO, json.dumps(hello).encode())
        self.watch_always(0, READ, self.receive)
        self.watch_always(self.died, READ, self.reap)
        try:
            while not self.ending:
                self.flush()
                ready = (self.few if self.way.busy() else self.all).select(self.timeout())
                for fd, events, owner in [(key.fd, events, self.owners.get(key.fd)) for key, events in ready]:
                    # A callback may close a file descriptor, and open another of the same number.
                    if owner and self.owners.get(fd) is owner:
                        owner[1](fd, events)
                self.expire()
        finally:
            self.finish()
        if self.step and not self.stopped:
            self.await_background()

    def timeout(self):
        deadlines = [c.deadline for c in self.connecting] + [self.gone_at()]
        if time.monotonic() < self.flush_at:
            deadlines.append(self.flush_at)
        if self.entrance and self.entrance.client:
            deadlines.append(self.entrance.deadline)
        if self.way.busy():
            deadlines.append(self.way.moved + STUCK_AFTER)
        if self.channels and not self.away():
            deadlines.append(self.heard + AWAY_AFTER)
        return max(0, min(deadlines) - time.monotonic())

    def gone_at(self):
        """When a client that sends nothing more counts as gone."""
        return self.heard + (self.hold if self.needed() else self.silence)

    def away(self):
        """Whether nobody answers at the moment."""
        return self.way.source < 0 or time.monotonic() >= self.heard + AWAY_AFTER

    def needed(self):
        """Whether something waits for the client: a channel, or the end of one."""
        return self.channels or self.way.acked < self.way.owed

    def expire(self):
        now = time.monotonic()
        if now > self.gone_at():
            self.end()  # the client is gone, and nothing closed the pipe
        if self.entrance:
            self.entrance.expire(now)
        for c in [c for c in self.connecting if now >= c.deadline]:
            c.refuse(os.strerror(errno.ETIMEDOUT))
        if self.away():
            for c in list(self.channels.values()):
                c.answer_ping()

    def watch(self, fd, events, callback):
        """Calls callback(fd, events) when one of the events can happen; 0 ends that."""
        before = self.owners.get(fd, (0, None))
        if before == (events, callback):
            return
        if not events:
            if before[0]:
                self.all.unregister(fd)
                del self.owners[fd]
            return
        register(self.all, fd, events, before[0])
        self.owners[fd] = (events, callback)

    def watch_always(self, fd, events, callback):
        """As watch, also if nothing more should be read for the client."""
        before = self.owners.get(fd, (0, None))
        if before == (events, callback):
            return
        if events:
            register(self.few, fd, events, before[0])
        elif before[0]:
            self.few.unregister(fd)
        self.watch(fd, events, callback)

    def receive(self, fd, _):
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
        inbox, start = self.inbox, 0
        inbox += data
        while len(inbox) - start >= HEADER.size and not self.ending:
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
            self.watch_always(fd, 0, None)
        self.way.close()

    def come_back(self, fd):
        """The client has come back, over a socket."""
        self.heard = time.monotonic()
        self.leave()
        os.set_blocking(fd, False)
        self.way.open(fd)
        paused = sum(c.credit <= 0 for c in self.channels.values())
        if not tell(fd, {"received": self.way.received, "paused": paused}):
            self.lost()

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
            self.end()
        elif kind == SERVER:
            self.environment.set_port(NUMBER.unpack(payload)[0])
        elif kind == OPEN and not channel:
            self.open(number, json.loads(payload.decode()))
        elif not channel:
            pass  # it was closed meanwhile
        elif kind == DATA:
            channel.write(payload)
        elif kind == EOF:
            channel.write_eof()
        elif kind == WINDOW:
            channel.add_credit(NUMBER.unpack(payload)[0])
        elif kind == CLOSE:
            channel.hang_up()
        elif kind == RESIZE:
            channel.resize(payload)
        elif kind == SIGNAL:
            channel.signal(payload.decode())
        elif kind == EOW:
            channel.stop_reading()

    def open(self, number, request):
        try:
            if request["kind"] in ("tcp", "unix"):
                Connection(self, number, request)
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
        if not self.way.unsent:
            self.flush_at = time.monotonic() + ANSWER_TIME

    def flush(self):
        if time.monotonic() < self.flush_at:
            return
        if not self.way.write():
            self.lost()
        source, sink = self.way.source, self.way.sink
        if sink < 0:
            return
        waits = WRITE if self.way.unsent else 0
        if source == sink:
            self.watch_always(sink, READ | waits, self.ready)
        else:
            self.watch_always(sink, waits, self.ready)

    def ready(self, fd, events):
        """The way can be read from or written to; the loop writes."""
        if events & READ:
            self.receive(fd, events)

    def reap(self, fd, _):
        try:
            os.read(fd, 512)
        except OSError:
            pass
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except OSError:
                return
            if not pid:
                return
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
        self.send(0, END)
        self.way.write()
        doomed = self.running()
        self.way.close()  # whoever waits for the relay's output need not wait longer
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

    def running(self):
        """The processes that end with the relay."""
        found = processes()
        if self.chase:
            return set(descendants(found))
        ends = set(self.programs.values()) | set(self.channels.values())
        return {p for c in ends for p in c.tied(found)}

    def await_background(self):
        """Waits for what was put in the background: Slurm would end it with the first process of the step."""
        signal.set_wakeup_fd(-1)
        for end in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(end, signal.SIG_DFL)
        null = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(null, fd)
        try:
            while True:
                os.waitpid(-1, 0)
        except ChildProcessError:
            pass


def register(selector, fd, events, before):
    if before:
        selector.modify(fd, events)
    else:
        selector.register(fd, events)


class Channel:
    """Data between the client and file descriptors."""

    def __init__(self, relay, number):
        self.relay = relay
        self.number = number
        self.credit = WINDOW_SIZE  # how many bytes the client accepts
        self.sources = {}  # file descriptors that are read: the kind of frame
        self.sink = -1  # the file descriptor that is written to
        self.queue = collections.deque()  # for the sink
        self.consumed = 0  # bytes that the client may send again
        self.got_eof = False

    def opened(self):
        self.relay.channels[self.number] = self
        self.send(OPENED)
        self.watch()

    def send(self, kind, payload=b""):
        self.relay.send(self.number, kind, payload)

    def watch(self):
        """Watches what can make progress, and only that."""
        fds = set(self.sources)
        if self.sink >= 0:
            fds.add(self.sink)
        for fd in fds:
            events = READ if fd in self.sources and self.credit > 0 else 0
            if fd == self.sink and self.queue:
                events |= WRITE
            self.relay.watch(fd, events, self.ready)

    def ready(self, fd, events):
        if events & WRITE and fd == self.sink:
            self.flush()
        if events & READ and fd in self.sources:
            self.read(fd)

    def read(self, fd):
        try:
            data = os.read(fd, min(READ_SIZE, self.credit))
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self.lost(fd)
            return
        if not data:
            self.read_eof(fd)
            return
        self.credit -= len(data)
        self.send(self.sources[fd], data)
        if self.credit <= 0:
            self.watch()

    def add_credit(self, n):
        self.credit += n
        self.watch()

    def write(self, data):
        if self.sink < 0:
            self.consume(len(data))  # nobody reads it
            return
        self.queue.append(data)
        if len(self.queue) == 1:
            self.flush()

    def flush(self):
        queue = self.queue
        while queue:
            try:
                n = os.write(self.sink, queue[0])
            except (BlockingIOError, InterruptedError):
                break
            except OSError:
                self.sink_lost()
                return
            self.consume(n)
            if n < len(queue[0]):
                queue[0] = memoryview(queue[0])[n:]
            else:
                queue.popleft()
        self.watch()
        if self.got_eof and not queue:
            self.end_sink()

    def consume(self, n):
        self.consumed += n
        if self.consumed >= WINDOW_SIZE // 8:
            self.send(WINDOW, NUMBER.pack(self.consumed))
            self.consumed = 0

    def write_eof(self):
        self.got_eof = True
        if not self.queue:
            self.end_sink()

    def sink_lost(self):
        """Drops what nobody will read."""
        self.consume(sum(len(data) for data in self.queue))
        self.queue.clear()
        self.watch()
        self.end_sink()

    def close(self, fd):
        self.relay.watch(fd, 0, None)
        self.sources.pop(fd, None)
        if fd == self.sink:
            self.sink = -1
        try:
            os.close(fd)
        except OSError:
            pass

    def close_all(self):
        for fd in set(self.sources) | ({self.sink} if self.sink >= 0 else set()):
            self.close(fd)
        self.queue.clear()

    def drop(self):
        self.close_all()
        self.relay.channels.pop(self.number, None)

    def answer_ping(self):
        pass

    # What only programs have.

    def tied(self, found):
        return ()

    def resize(self, payload):
        pass

    def signal(self, name):
        pass

    def stop_reading(self):
        pass


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
        opened = []  # in case one fails

        def pipe():
            pair = os.pipe()
            opened.extend(pair)
            try:
                fcntl.fcntl(pair[0], 1031, PIPE_SIZE)  # F_SETPIPE_SZ
            except OSError:
                pass
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
            for fd in set(self.sources) | {self.sink}:
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

    def lost(self, fd):
        # A terminal: the end of its session's first process hangs it up, so that what is
        # in the background does not keep it open.
        self.read_eof(fd)

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
            fcntl.ioctl(self.sink, termios.TIOCSWINSZ, payload_to_size(payload))

    def signal(self, name):
        if name in SIGNALS and self.status is None:
            try:
                os.killpg(self.pid, getattr(signal, "SIG" + name))
            except OSError:
                pass

    def stop_reading(self):
        for fd in [fd for fd, kind in self.sources.items() if kind == DATA and not self.terminal]:
            self.close(fd)
        self.finish()


def payload_to_size(payload):
    return struct.pack("HHHH", *SIZE.unpack(payload))


def exit_of(status):
    if os.WIFEXITED(status):
        return {"status": os.WEXITSTATUS(status)}
    try:
        name = signal.Signals(os.WTERMSIG(status)).name[3:]
    except ValueError:
        name = ""
    if name not in SIGNALS:
        name = "SIG@openssh.com"  # as sshd does
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


def decode(text):
    return binascii.a2b_base64(text)


def execute(path, argv, env, fds, terminal):
    """Turns this process, a fork, into a program."""
    try:
        os.setsid()
        if terminal:
            fcntl.ioctl(fds[0], termios.TIOCSCTTY, 0)
        signal.set_wakeup_fd(-1)
        for s in ("CHLD", "HUP", "INT", "PIPE", "TERM", "XFSZ"):
            signal.signal(getattr(signal, "SIG" + s), signal.SIG_DFL)
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


# Modes of a terminal, by their numbers in RFC 4254, section 8: where Python has them.
CHARACTERS = {1: "VINTR", 2: "VQUIT", 3: "VERASE", 4: "VKILL", 5: "VEOF", 6: "VEOL", 7: "VEOL2", 8: "VSTART", 9: "VSTOP",
              10: "VSUSP", 12: "VREPRINT", 13: "VWERASE", 14: "VLNEXT", 18: "VDISCARD"}
INPUT = {30: "IGNPAR", 31: "PARMRK", 32: "INPCK", 33: "ISTRIP", 34: "INLCR", 35: "IGNCR", 36: "ICRNL", 38: "IXON",
         39: "IXANY", 40: "IXOFF", 41: "IMAXBEL", 42: "IUTF8"}
LOCAL = {50: "ISIG", 51: "ICANON", 53: "ECHO", 54: "ECHOE", 55: "ECHOK", 56: "ECHONL", 57: "NOFLSH", 58: "TOSTOP",
         59: "IEXTEN", 60: "ECHOCTL", 61: "ECHOKE", 62: "PENDIN"}
OUTPUT = {70: "OPOST", 72: "ONLCR", 73: "OCRNL", 74: "ONOCR", 75: "ONLRET"}


def configure(fd, terminal):
    """Sets size and modes of a terminal."""
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", *terminal["size"]))
    attributes = termios.tcgetattr(fd)
    for mode, value in terminal["modes"]:
        for index, table in ((0, INPUT), (1, OUTPUT), (3, LOCAL)):
            # IUTF8 is missing before Python 3.14.
            bit = getattr(termios, table.get(mode, ""), 0o40000 if mode == 42 and not index else 0)
            attributes[index] = attributes[index] | bit if value else attributes[index] & ~bit
        if mode in CHARACTERS:
            # 255 turns the character off; Linux writes that as 0.
            attributes[6][getattr(termios, CHARACTERS[mode])] = bytes([value & 255 if value != 255 else 0])
    try:
        termios.tcsetattr(fd, termios.TCSANOW, attributes)
    except termios.error:
        pass  # a client may ask for what no terminal has


class Connection(Channel):
    """A connection to an address or a socket, as this node sees it."""

    def __init__(self, relay, number, request):
        Channel.__init__(self, relay, number)
        self.socket = None
        self.lookup = -1  # where the addresses of a name come from
        self.error = "no address"
        self.done = False  # the other side sends no more
        self.deadline = time.monotonic() + CONNECT_TIMEOUT
        self.websocket = WebSocket()  # None: it is none
        if request["kind"] == "unix":
            self.addresses = [(socket.AF_UNIX, decode(request["path"]))]
        else:
            self.addresses = literal(request["host"], request["port"])
        relay.channels[number] = self
        relay.connecting.add(self)
        if self.addresses is None:
            self.resolve(request["host"], request["port"])
        else:
            self.connect()

    def resolve(self, host, port):
        """Looks a name up in a process of its own, since that waits."""
        result, answer = os.pipe()
        try:
            pid = os.fork()
        except OSError:
            os.close(result)
            os.close(answer)
            raise
        if not pid:
            look_up(host, port, answer)
        os.close(answer)
        os.set_blocking(result, False)
        self.answer = b""
        self.lookup = result
        self.relay.watch(result, READ, self.resolved)

    def resolved(self, fd, _):
        try:
            data = os.read(fd, READ_SIZE)
        except (BlockingIOError, InterruptedError):
            return
        self.answer += data
        if data:
            return
        self.lookup = -1
        self.close(fd)
        try:
            found = json.loads(self.answer.decode())
        except ValueError:
            found = "the name could not be looked up"
        if not isinstance(found, list):
            self.refuse(found)
            return
        self.addresses = [(family, tuple(address)) for family, address in found]
        self.connect()

    def connect(self):
        """Tries the next address."""
        while self.addresses:
            family, address = self.addresses.pop(0)
            try:
                self.socket = socket.socket(family)
                self.socket.setblocking(False)
                code = self.socket.connect_ex(address)
            except (OSError, ValueError) as err:
                self.error = words(err)
                self.close_socket()
                continue
            if code == 0:
                self.connected()
                return
            if code == errno.EINPROGRESS:
                self.relay.watch(self.socket.fileno(), WRITE, self.progressed)
                return
            self.error = os.strerror(code)
            self.close_socket()
        self.refuse(self.error)

    def progressed(self, fd, _):
        self.relay.watch(fd, 0, None)
        code = self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            self.error = os.strerror(code)
            self.close_socket()
            self.connect()
        else:
            self.connected()

    def write(self, data):
        self.follow(WebSocket.received, data)
        if self in self.relay.connecting:
            self.queue.append(data)
        else:
            Channel.write(self, data)

    def send(self, kind, payload=b""):
        if kind == DATA:
            self.follow(WebSocket.sent, payload)
        Channel.send(self, kind, payload)

    def follow(self, direction, data):
        if self.websocket:
            try:
                direction(self.websocket, data)
            except ValueError:
                self.websocket = None

    def answer_ping(self):
        """Has the server wait for a client that is away, as it waits for one that answers."""
        pong = self.websocket.pong() if self.websocket and not self.got_eof else b""
        if pong:
            self.consumed -= len(pong)  # the client has not sent it
            Channel.write(self, pong)

    def connected(self):
        self.relay.connecting.discard(self)
        if self.socket.family != socket.AF_UNIX:
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sink = self.socket.fileno()
        self.sources = {self.sink: DATA}
        if self.queue:
            self.relay.await_answer()
        self.opened()

    def refuse(self, message):
        self.drop()
        self.send(REFUSED, json.dumps({"message": message}).encode())

    def close_socket(self):
        if self.socket:
            self.relay.watch(self.socket.fileno(), 0, None)
            self.socket.close()
            self.socket = None

    def close_all(self):
        self.relay.connecting.discard(self)
        if self.lookup >= 0:
            self.close(self.lookup)
        if self.socket:
            self.sources.clear()
            self.sink = -1
            self.close_socket()
        Channel.close_all(self)

    def read_eof(self, fd):
        self.done = True
        self.send(EOF)
        del self.sources[fd]
        self.watch()
        self.finish()

    def lost(self, *_):
        self.send(CLOSE)
        self.drop()

    sink_lost = lost

    def end_sink(self):
        try:
            self.socket.shutdown(socket.SHUT_WR)
        except (OSError, AttributeError):
            pass  # it is not connected
        self.watch()
        self.finish()

    def finish(self):
        if self.done and self.got_eof and not self.queue:
            self.send(CLOSE)
            self.drop()

    def hang_up(self):
        self.drop()


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
        self.kind = 0
        self.mask = b""
        self.payload = b""  # of a control frame
        self.control = {}  # the last payload of each kind

    def follow(self, data):
        at = self.skip_http(data) if self.http else 0
        while at < len(data):
            if not self.left:
                n = self.head_size() - len(self.head)
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
            at += n
            self.left -= n

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
        self.kind = self.head[0] & 15
        self.mask = self.head[-4:] if self.head[1] & WS_MASKED else b""
        self.left, self.head, self.payload = length, b"", b""
        if self.kind & WS_CONTROL and length > 125:
            raise ValueError


def unmask(data, mask):
    return bytes(b ^ mask[i % 4] for i, b in enumerate(data)) if mask else data


def literal(host, port):
    """The addresses of a host that need no lookup, or None."""
    if host == "localhost":
        return [(socket.AF_INET, ("127.0.0.1", port)), (socket.AF_INET6, ("::1", port))]
    try:
        return [(a[0], a[4]) for a in socket.getaddrinfo(host, port, 0, socket.SOCK_STREAM, 0, socket.AI_NUMERICHOST)]
    except (OSError, ValueError):
        return None


def look_up(host, port, answer):
    """Writes the addresses of a host, and exits. It holds nothing of the relay's."""
    try:
        signal.set_wakeup_fd(-1)
        for s in ("HUP", "INT", "TERM"):
            signal.signal(getattr(signal, "SIG" + s), signal.SIG_DFL)
        signal.alarm(CONNECT_TIMEOUT)
        for name in os.listdir("/proc/self/fd"):
            if int(name) not in (2, answer):
                try:
                    os.close(int(name))
                except OSError:
                    pass
        try:
            found = [(int(a[0]), a[4]) for a in socket.getaddrinfo(host, port, 0, socket.SOCK_STREAM)]
        except (OSError, ValueError) as err:
            found = words(err)
        os.write(answer, json.dumps(found).encode())
    finally:
        os._exit(0)


def words(err):
    """What the system says of an error."""
    return getattr(err, "strerror", None) or str(err)


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


def where():
    """What sees the relay's socket: this network namespace of this boot."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as f:
            return f.read().strip() + " " + os.readlink("/proc/self/ns/net")
    except OSError:
        return ""


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
        ours = descendants(everyone) + [own]
        others = [p for p in everyone if p not in ours]
        for p in listeners(self.port, others):
            env = p.environ()
            # The paths in a container's environment are not this node's.
            if env and not any(name in env for name in CONTAINERS):
                return "server", p, env
        if self.job:
            for p in others:
                env = p.environ()
                if env and belongs(env, self.job) and not any(name in env for name in CONTAINERS) and not relay(p):
                    return "job", p, env
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
    try:
        with open("/proc/%d/cmdline" % process.pid, "rb") as f:
            return b"tunctl-relay" in f.read().split(b"\0")
    except OSError:
        return False


def listeners(port, candidates):
    """The processes that listen on a port, the oldest first."""
    if not port:
        return
    sockets = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(table) as f:
                rows = [line.split() for line in f]
        except OSError:
            continue
        for row in rows[1:]:
            if len(row) > 9 and row[3] == "0A" and row[1].rpartition(":")[2] == "%04X" % port and row[7] == str(os.getuid()):
                sockets.add("socket:[%s]" % row[9])
    if sockets:
        for p in candidates:
            if p.holds(sockets):
                yield p


def main():
    options = json.loads(sys.stdin.buffer.readline().decode())
    Relay(options).run(options["mark"])


main()
