PAGE_HOLD = 3600  # seconds in which a page may come back for what it missed when its cells are finished
COLLECT_STEP = 1 << 20  # bytes that are collected before others have their turn
COLLECT_LIMIT = 64 << 20  # bytes that are kept of cells whose page is there
REPLY_TIME = 1  # seconds for the reply to a cell, which may come after its end
CELLS_LIMIT = 1000  # that wait to run
OUTPUTS = ("stream", "display_data", "execute_result", "error", "clear_output", "update_display_data", "input_request")


class Kernel(Connection):
    """A WebSocket to a kernel of Jupyter. It outlives the connection of its page while a cell of that page
    runs. The page may come back for what it did not take; what cells print while nobody takes anything is
    collected."""

    def __init__(self, relay, number, request):
        self.about = request["kernel"]
        self.head = b""  # the server's answer to the page
        self.page = True  # is there
        self.until = 0  # when it counts as gone for good
        self.cells = collections.OrderedDict()  # those that run, by the id of their request
        self.finished = []  # those whose end was collected, and where it is
        self.taken = 0  # up to where the page has what was sent
        self.base = 0  # where its connection began
        self.collected = 0  # up to where it was collected, while cells run
        self.reader = None
        self.whole = True  # all that the page has not taken is kept
        self.lossy = False  # what cannot be written down is only counted
        relay.kernels.append(self)
        Connection.__init__(self, relay, number, request)

    def began(self, head):
        self.head += head

    def is_of(self, about):
        same = all(self.about.get(name) == about.get(name) for name in ("id", "session", "origin"))
        # In the middle of a message of the page before, the server would take the next one for its rest.
        client = self.upgraded() and self.websocket.client
        return client and client.at == client.whole and self.whole and same and self.about["journal"] == about["before"]

    def upgraded(self):
        return self.websocket and not self.websocket.server.http

    def attach(self, number, about):
        """The page is back, and gets all that it did not take."""
        self.take(about.get("taken", 0))
        self.about, self.base = dict(self.about, **about), self.taken
        if self.page:
            Channel.send(self, CLOSE)
            del self.relay.channels[self.number]
        self.number, self.credit = number, WINDOW_SIZE
        self.consumed = -len(self.queue)  # another connection sent that
        self.page, self.eof_sent, self.got_eof = True, False, False
        self.opened()
        head = WS_ACCEPT.sub(br"\g<1>" + about.get("accept", "").encode(), self.head)  # it was for another key
        self.credit -= len(head)
        self.send(DATA, head)
        self.given = self.taken
        self.client_moved()

    def hang_up(self):
        """The page is gone. If none of its cells runs, so is the connection."""
        self.relay.channels.pop(self.number, None)
        self.number, self.page, self.given = 0, False, self.taken  # another client may have a channel of that number
        self.until = time.monotonic() + self.relay.hold
        if self.done and self.upgraded() and self.taken >= self.websocket.server.whole:
            self.cell_done("")  # the page has all that the server sent until it ended
        if (self.cells or self.finished) and self.upgraded():
            self.collect()
            self.watch()
        else:
            self.drop()

    def drop(self):
        if self in self.relay.kernels:
            self.relay.kernels.remove(self)
            self.end_all("the connection to the kernel ended")
        Connection.drop(self)

    def send(self, kind, payload=b""):
        if self.page:
            Channel.send(self, kind, payload)

    def feed(self):
        if self.page:
            Connection.feed(self)
        else:
            self.spool.drop(self.needed_from())

    def is_held(self):
        return not self.page or Connection.is_held(self)

    def needed_from(self):
        at = min(self.taken, self.websocket.server.whole) if self.websocket else self.given
        return min(at, self.collected) if self.cells else at

    def took(self, fd, data):
        Connection.took(self, fd, data)
        if not self.websocket:
            self.unreadable()
        elif self.cells and self.collects():
            self.collect()
        elif self.cells and (self.spool.end - self.collected > COLLECT_LIMIT or not self.relay.has_room()):
            self.skip(self.websocket.server.whole)

    def unreadable(self):
        """One side sent what is no WebSocket: it is a connection as any other."""
        if self.page:
            self.cell_done("")
        else:
            self.end_all("the server sent what cannot be read")
            self.drop()

    def collects(self):
        return not self.page or self.relay.away()

    def client_moved(self):
        if self.page and not self.whole and not self.relay.away():
            Channel.send(self, CLOSE)  # it would miss something: it connects again
            self.hang_up()
        else:
            Connection.client_moved(self)

    def make_room(self):
        """Gives up what only the page needs that is away, and what cannot be written down."""
        self.lossy = True
        if self.collects() and self.cells and self.taken < self.collected:
            self.whole, self.taken = False, self.collected
            self.spool.drop(self.needed_from())

    def read_eof(self, fd):
        Connection.read_eof(self, fd)
        if not self.page:
            self.collect()

    def lost(self, *_):
        """The server is gone. What it sent is the page's all the same."""
        if not self.upgraded():
            Connection.lost(self)
            return
        self.close_server()
        self.done = True
        self.feed()
        if not self.page:
            self.collect()

    sink_lost = lost

    # The cells.

    def request(self, about):
        """The page is about to run a cell, or the notebook is known."""
        if not about.get("id"):
            self.about.update(about)
        elif self.websocket:
            if not self.cells:
                self.collected, self.reader = self.websocket.server.whole, None
            elif len(self.cells) >= CELLS_LIMIT:
                self.cells.popitem()  # the last one ends last
            self.cells[about["id"]] = Cell(self, about)

    def take(self, at):
        """The page has so much of what its connection carried."""
        self.taken = min(max(self.taken, self.base + at), self.spool.end)
        for end, cell in list(self.finished):
            if end <= self.taken:
                cell.forget()
                self.finished.remove((end, cell))
        self.spool.drop(self.needed_from())

    def cell_done(self, name):
        """The page has the end of a cell."""
        for cell in self.until_cell(name):
            cell.forget()

    def until_cell(self, name):
        """Takes out the cells up to one, which run one after the other; "" is all."""
        names = list(self.cells)
        if name:
            names = names[:names.index(name) + 1] if name in self.cells else []
        return [self.cells.pop(n) for n in names]

    def skip(self, to):
        next(iter(self.cells.values())).missing += to - self.collected
        self.collected, self.reader = to, None

    def stuck(self):
        """Whether to wait until what was collected is written."""
        self.lossy = self.lossy and self.relay.writer.full()
        return self.relay.writer.full() and not self.lossy

    def collect(self):
        """Collects what came, as far as it can be written down."""
        if not self.reader:
            self.reader = Frames(b"")
            self.reader.http, self.reader.at, self.reader.on_message = False, self.collected, self.message
        stop = min(self.spool.end, self.collected + COLLECT_STEP)
        while self.cells and self.collected < stop and not self.stuck():
            data = self.spool.read(self.collected, min(READ_SIZE, stop - self.collected))
            self.collected += len(data)
            try:
                self.reader.follow(data)
            except ValueError:
                self.end_all("the server sent what cannot be read")
        if self.done and self.collected == self.spool.end:
            self.end_all("the connection to the kernel ended")
        if not self.cells and not self.page:
            self.until = min(self.until, time.monotonic() + (PAGE_HOLD if self.done else REPLY_TIME))
        self.spool.drop(self.needed_from())

    def expire(self):
        if self.cells or self.done:
            self.drop()
        else:
            self.close_server()
            self.done = True
            self.until = time.monotonic() + PAGE_HOLD

    def works(self):
        """Whether something can be collected now."""
        return self.cells and self.collects() and self.collected < self.spool.end and not self.stuck()

    def message(self, message, at):
        if len(message) >= WS_MESSAGE_LIMIT and self.cells:
            next(iter(self.cells.values())).missing += len(message)
        with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError, RecursionError, struct.error):  # it is none of Jupyter's
            self.heed(*parse(message), at)

    def heed(self, header, parent, content, at):
        kind, name = header["msg_type"], parent.get("msg_id")
        state, cell = content.get("execution_state"), self.cells.get(name)
        if kind in OUTPUTS and cell:
            cell.write({"type": kind, "content": content})
        elif kind == "status" and state in ("restarting", "dead", "autorestarting"):
            self.end_all("the kernel was restarted" if state != "dead" else "the kernel died", at)
        elif cell and (kind == "status" and state == "idle" or kind == "execute_reply" and content.get("status") == "aborted"):
            self.end_cells(name, "finished" if kind == "status" else "not run: a cell before it failed", at)

    def end_cells(self, name, how, at=0):
        for cell in self.until_cell(name):
            cell.end(how)
            self.finished.append((at, cell))

    def end_all(self, how, at=0):
        self.end_cells("", how, at)


def parse(message):
    """The header, parent header and content of a message: of JSON, or of v1.kernel.websocket.jupyter.org."""
    if message[:1] == b"{":
        m = json.loads(message.decode("utf-8", "replace"))
        return m["header"], m["parent_header"], m["content"]
    count = struct.unpack_from("<Q", message)[0]
    at = struct.unpack_from("<%dQ" % min(count, 6), message, 8)
    header, parent, _, content = (json.loads(message[a:b].decode("utf-8", "replace")) for a, b in zip(at[1:5], at[2:6]))
    return header, parent, content


class Cell:
    """A request of a page to run code."""

    def __init__(self, kernel, about):
        self.kernel, self.about = kernel, dict(about, started=time.time())
        self.missing = 0  # bytes that were not kept
        self.file = None  # what it prints is collected there
        self.waits = False  # for input

    def write(self, line):
        writer, about = self.kernel.relay.writer, self.kernel.about
        if not about["collect"]:
            return
        self.waits = line["type"] == "input_request"
        folder, text = re.sub(r"[^\w.-]", "_", about["name"]), json.dumps(line) + "\n"
        if writer.full(folder, len(text)) and line["type"] != "end":
            self.missing += len(text)
            return
        if not self.file:
            self.file = writer.new_file(folder)
            first = dict(self.about, type="cell", notebook=about.get("notebook", ""))
            writer.put(self.file, json.dumps(first) + "\n")
        if self.missing:
            writer.put(self.file, json.dumps({"type": "beyond", "bytes": self.missing}) + "\n")
            self.missing = 0
        writer.put(self.file, text)

    def end(self, how):
        self.write({"type": "end", "time": time.time(), "how": how})
        if self.file:
            self.kernel.relay.outputs.add(self.file)

    def forget(self):
        if self.file:
            self.kernel.relay.writer.put(self.file, "")
            self.kernel.relay.outputs.discard(self.file)
