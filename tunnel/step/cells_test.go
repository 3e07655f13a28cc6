//go:build linux

package step

import (
	"os/exec"
	"strings"
	"testing"

	"tunctl/internal/dev/testprogram"
)

// inRelay runs Python with the relay's classes, but no relay: what the test gets wrong is an exception there.
func inRelay(t *testing.T, code string) {
	t.Helper()
	check := exec.Command(testprogram.Need(t, "python3"), "-I", "-S", "-")
	check.Dir = t.TempDir()
	check.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + check.Dir, "TMPDIR=" + check.Dir}
	classes, _, _ := strings.Cut(relay, "OPTIONS = ")
	check.Stdin = strings.NewReader(classes + inRelayHelp + code)
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

const inRelayHelp = `
import resource, threading
relay = Relay({"job": "", "port": 0, "silence": 600, "hold": 600})
relay.hold = 600
ABOUT = {"id": "k", "session": "s", "origin": "o", "name": "nb", "collect": True, "journal": "j"}
HEAD = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n"

def frame(payload, kind=1, final=WS_FINAL, mask=b""):
    size = len(payload)
    length = bytes([size]) if size < 126 else b"\x7e" + struct.pack(">H", size) if size < 65536 else b"\x7f" + struct.pack(">Q", size)
    length = bytes([length[0] | (WS_MASKED if mask else 0)]) + length[1:]
    return bytes([final | kind]) + length + mask + unmask(payload, mask)

def message(kind, parent="c", **content):
    return frame(json.dumps({"header": {"msg_type": kind}, "parent_header": {"msg_id": parent}, "content": content}).encode())

def page(number=1):
    """A page's connection to a kernel, and the server's end of it."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(5)
    k = Kernel(relay, number, {"kind": "tcp", "host": "127.0.0.1", "port": listener.getsockname()[1], "kernel": dict(ABOUT)})
    k.write(b"GET / HTTP/1.1\r\nUpgrade: websocket\r\n\r\n")
    turn(lambda: k not in relay.connecting)
    server = listener.accept()[0]
    listener.close()
    server.sendall(HEAD)
    turn(lambda: k.head == HEAD)
    server.setblocking(False)
    return k, server

def turn(until=None, times=1):
    """Turns the relay's loop until something holds."""
    late = time.monotonic() + 120
    while times > 0 or until and not until():
        times -= 1
        relay.turn(relay.all, 0.01 if until else 0)
        relay.expire()
        assert time.monotonic() < late, "nothing became of it"

def sent(k, of=DATA):
    """What the client was sent on a kernel's channel."""
    data, found, at = bytes(relay.way.kept.tail), b"", 0
    while at < len(data):
        channel, kind, size = HEADER.unpack_from(data, at)
        at += HEADER.size + size
        if channel == k.number and kind == of:
            found += data[at - size:at]
    return found

def feed(server, data, k):
    """Has the server send, and the relay read all of it."""
    to = k.websocket and k.websocket.server.at + len(data)
    data = memoryview(data)
    while data and k in relay.kernels:
        try:
            data = data[server.send(data[:1 << 16]):]
        except BlockingIOError:
            pass
        turn()
    turn(lambda: not k.websocket or k not in relay.kernels or k.websocket.server.at == to, 3)

def miss(k, server, data):
    """Has a page take only the beginning of what comes, since it was away."""
    relay.away = lambda: True
    feed(server, data, k)
    relay.away, k.credit = lambda: False, 10
    k.client_moved()

relay.away = lambda: False
relay.way.sink = -1
def acknowledge():
    relay.way.kept.drop(relay.way.kept.end)
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
`

func TestKernelInRelay(t *testing.T) {
	for name, code := range map[string]string{
		"messages of no known form": `
k, server = page()
k.request({"id": "c", "code": "x"})
k.hang_up()
for m in (b"{", b"[" * 100000, b'{"header":{"msg_type":[]},"parent_header":{"msg_id":[1]},"content":{}}', b"\xff" * 99, b"\x00" * 8,
          struct.pack("<7Q", 6, 1 << 63, 2, 3, 4, 5, 6), b'{"header":1,"parent_header":2,"content":3}',
          b'{"header":{"msg_type":"stream"},"parent_header":{"msg_id":"c"},"content":' + b'{"a":' * 900 + b"1" + b"}" * 901):
    feed(server, frame(m), k)
feed(server, message("status", execution_state="idle"), k)
turn(lambda: not k.cells)
`,
		"a server that sends no frames after all": `
k, server = page()
k.request({"id": "c"})
k.hang_up()
feed(server, message("stream", text="x") + frame(b"x" * 200, 9), k)
turn(lambda: k not in relay.kernels)
k, server = page()
for i in range(64):
    feed(server, b"x" * (1 << 16), k)
    acknowledge()
    k.add_credit(1 << 16)
assert len(k.head) == len(HEAD), len(k.head)
`,
		"a page that sends no frames while it reads nothing": `
k, server = page()
lines = message("stream", text="y" * 500)
miss(k, server, lines)
k.write(frame(b"x" * 200, 9, mask=b"1234"))
assert not k.websocket
k.add_credit(5)
k.add_credit(WINDOW_SIZE)
feed(server, b"after", k)
turn(lambda: sent(k) == HEAD + lines + b"after")
`,
		"what a client that ends sends after that": `
k, server = page()
k.request({"id": "c"})
relay.entrance = True
relay.way.source, client = os.pipe()
os.write(client, HEADER.pack(0, END, 0) + HEADER.pack(0, ACK, COUNT.size) + COUNT.pack(99))
relay.receive(relay.way.source, READ)
assert not relay.ending and relay.kernels == [k]
`,
		"the number of another client's channel": `
k, server = page()
k.request({"id": "c"})
k.hang_up()
other, _ = page(1)
assert relay.channels[1] is other
k.drop()
assert relay.channels[1] is other
`,
		"the window of the page that comes back": `
k, server = page()
k.request({"id": "c"})
k.sink, sink = relay.died, k.sink  # it takes nothing
k.queue.append(frame(b"z" * (1 << 20), mask=b"1234"))
k.websocket.received(bytes(k.queue.tail))
k.hang_up()
k.attach(2, dict(ABOUT, before="j", journal="j2"))
k.sink = sink
k.flush()
while k.queue:
    try:
        server.recv(1 << 20)
    except BlockingIOError:
        pass
    k.flush()
assert not sent(k, WINDOW)
`,
		"a page that was within a message": `
k, server = page()
k.request({"id": "c"})
k.write(frame(b"z" * 1000, mask=b"1234")[:500])
k.hang_up()
assert not k.is_of(dict(ABOUT, before="j"))
k, server = page()
k.request({"id": "c"})
k.write(frame(b"z" * 1000, mask=b"1234"))
k.hang_up()
assert k.is_of(dict(ABOUT, before="j"))
assert not k.is_of(dict(ABOUT, before="j", origin="p")) and not k.is_of(dict(ABOUT, before="i"))
`,
		"a server that resets the connection": `
k, server = page()
k.request({"id": "c"})
lines = b"".join(message("stream", text="y" * 500) for _ in range(9))
miss(k, server, lines)
server.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
server.close()
turn(lambda: k.done)
k.add_credit(WINDOW_SIZE)
assert sent(k) == HEAD + lines
k.take(len(lines))
k.hang_up()
assert k not in relay.kernels and not relay.outputs
`,
		"a reply after the end of its cell": `
REPLY_TIME = 120
k, server = page()
k.request({"id": "c"})
k.hang_up()
feed(server, message("status", execution_state="idle"), k)
reply = message("execute_reply", status="ok")
feed(server, reply, k)
assert k.spool.read(k.spool.end - len(reply), 99999) == reply
assert not k.done and k.until <= time.monotonic() + REPLY_TIME
k.until = 0
turn(lambda: k.done)
assert k in relay.kernels
`,
		"output = false": `
k, server = page()
k.about["collect"] = False
k.request({"id": "c"})
k.hang_up()
feed(server, message("stream", text="x") + message("status", execution_state="idle"), k)
turn(lambda: not k.cells)
assert not relay.outputs and not relay.writer.waiting
`,
		"many requests": `
k, server = page()
for i in range(CELLS_LIMIT + 500):
    k.request({"id": str(i)})
assert len(k.cells) == CELLS_LIMIT
k.hang_up()
feed(server, message("status", parent=str(CELLS_LIMIT + 499), execution_state="idle"), k)
turn(lambda: not k.cells)
`,
		"a home that hangs": `
SPOOL_LIMIT = 4 << 20
k, server = page()
other, another = page(2)
k.request({"id": "c"})
k.hang_up()
def hang(self):
    self.helper = True
Writer.start = hang
for i in range(150):
    feed(server, message("stream", text="x" * 40000), k)
miss(other, another, message("stream", text="w" * 99999))
assert len(k.spool) <= SPOOL_LIMIT + READ_SIZE and relay.writer.size < 2 << 20, (len(k.spool), relay.writer.size)
cell = k.cells["c"]
feed(server, message("status", execution_state="idle"), k)
turn(lambda: not k.cells)
assert cell.about["id"] == "c" and any("beyond" in line for lines in relay.writer.waiting.values() for line in lines)
`,
		"what is written down": `
resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1]),) * 2)
held = [os.dup(2) for _ in range(1100)]  # select takes no larger numbers
OUTPUT_EVERY, OUTPUT_LIMIT = 0, 50000
home = os.path.expanduser("~/.tunctl")
open(home, "w").close()
k, server = page()
for name in ("c", "d"):
    k.request({"id": name})
k.hang_up()
feed(server, message("stream", text="one"), k)
turn(lambda: relay.writer.trouble == os.strerror(errno.ENOTDIR))
os.unlink(home)
turn(lambda: not relay.writer.waiting)
assert not relay.writer.trouble and not relay.writer.size
for size in (40000, 40000, 9):
    feed(server, message("stream", text="x" * size), k)
feed(server, message("status", execution_state="idle"), k)
feed(server, message("status", parent="d", execution_state="idle"), k)
turn(lambda: not k.cells and not relay.writer.waiting)
first, second = sorted(glob.glob(home + "/output/nb/*.jsonl"))
found = [json.loads(line) for line in open(first)]
assert [x["type"] for x in found] == ["cell", "stream", "stream", "beyond", "stream", "end"] and found[3]["bytes"] > 40000, found
assert [json.loads(line)["type"] for line in open(second)] == ["cell", "end"]
k.take(k.finished[0][0])
turn(lambda: not relay.writer.waiting)
assert not os.path.exists(first) and os.path.exists(second)
write_output = lambda *_: os._exit(1)
k.take(k.spool.end)
turn(lambda: "ended" in relay.writer.trouble)
`,
		"a temporary folder on the network": `
def folder(tmpdir, *mounts):
    global proc
    proc = lambda _: "".join("1 2 0:3 / %s rw - %s x rw\n" % m for m in mounts).encode()
    os.environ["TMPDIR"] = tmpdir
    spool_folder.cache_clear()
    return spool_folder()
here = os.getcwd()
os.symlink("/tmp", here + "/link")
assert folder(here, ("/", "nfs4"), (here, "xfs")) == here
assert folder(here, ("/", "ext4"), (here, "lustre")) == "/tmp"
assert folder(here, ("/", "ext4"), (here, "xfs"), (here, "lustre")) == "/tmp"
assert folder(here, ("/", "nfs"), (here, "fuse.sshfs"), ("/tmp", "tmpfs"), ("/var/tmp", "ext4")) == "/var/tmp"
assert folder(here, ("/", "nfs"), ("/tmp", "tmpfs")) is None
assert folder(here + "/link", (here, "ext4"), ("/", "nfs")) is None
assert folder(here + "/none", ("/", "ext4")) == "/tmp"
assert folder("", ("/", "ext4")) == "/tmp"
`,
		"a file that the user has removed": `
OUTPUT_EVERY = OUTPUT_LOOK = 0.05
k, server = page()
k.request({"id": "c"})
k.request({"id": "d"})
k.hang_up()
feed(server, message("stream", text="x") + message("status", execution_state="idle"), k)
def found():
    return glob.glob(os.path.expanduser("~/.tunctl/output/nb/*"))
turn(lambda: len(relay.outputs) == 1 and found())
os.unlink(found()[0])
turn(lambda: not relay.outputs)
feed(server, message("stream", "d", text="y") + message("status", "d", execution_state="idle"), k)
turn(lambda: len(relay.outputs) == 1 and found())
relay.finish()
`,
		"what is 30 days old": `
OUTPUT_EVERY = 0
folder = os.path.expanduser("~/.tunctl/output/nb/")
os.makedirs(folder)
for name, days in (("old", 31), ("new", 29)):
    open(folder + name + ".jsonl", "w").close()
    os.utime(folder + name + ".jsonl", (time.time() - days * 86400,) * 2)
k, server = page()
k.request({"id": "c"})
k.hang_up()
feed(server, message("stream", text="x"), k)
turn(lambda: not os.path.exists(folder + "old.jsonl") and not relay.writer.waiting)
assert os.path.exists(folder + "new.jsonl")
assert [os.stat(name).st_mode & 0o777 for name in glob.glob(folder + "2*")] == [0o600]
`,
		"a page that does not come back in time": `
OUTPUT_EVERY = 0
relay.hold = 0.2
k, server = page()
k.request({"id": "c"})
k.hang_up()
feed(server, message("stream", text="x"), k)
turn(lambda: k not in relay.kernels and not relay.writer.waiting and not relay.writer.helper)
assert "the connection to the kernel ended" in open(glob.glob(os.path.expanduser("~/.tunctl/output/nb/*"))[0]).read()
server.setblocking(True)
while server.recv(1 << 16):
    pass
`,
		"no disk for what waits": `
def full(*_, **__):
    raise OSError(errno.ENOSPC, "full")
tempfile.TemporaryFile = full
TAIL_LIMIT = 4 << 20
k, server = page()
k.request({"id": "c"})
before = peak()
for i in range(200):
    feed(server, message("stream", text="x" * 60000), k)
    acknowledge()
    k.add_credit(READ_SIZE * 2)
    k.take(k.given)
assert len(k.spool.tail) <= TAIL_LIMIT + READ_SIZE and peak() - before < 3 * TAIL_LIMIT, (len(k.spool.tail), peak() - before)
`,
		"very many small messages": `
k, server = page()
k.request({"id": "c"})
k.hang_up()
k.take(0)
before = peak()
part = frame(b"{}") * 10000
for i in range(5):
    feed(server, part, k)
assert k.websocket.server.at == 5 * len(part) and k.collected == k.spool.end
assert peak() - before < 32 << 20, peak() - before
feed(server, b"\x82\x7f" + b"\x7f" + b"\xff" * 7 + b"x" * (1 << 20), k)
assert len(k.reader.message) < 2 << 20
`,
	} {
		t.Run(name, func(t *testing.T) { inRelay(t, code) })
	}
}

func TestTerminalInRelay(t *testing.T) {
	inRelay(t, `
script = b"stty raw -echo; echo ready; until test -e gate; do sleep 0.05; done; head -c 100000 >/dev/null; echo done; exec sleep 60"
p = Program(relay, 1, {"kind": "exec", "command": binascii.b2a_base64(script).decode(), "pty": {"term": "xterm", "size": [24, 80, 0, 0], "modes": []}})
turn(lambda: b"ready" in sent(p))
p.write(bytes(100000))
p.write_eof()
turn(times=9)
assert relay.owners[p.sink][0] & WRITE, "it took all at once"
open("gate", "w").close()
turn(lambda: b"done" in sent(p))
assert not relay.owners[p.sink][0] & WRITE, "what is always ready is waited for"
`)
}
