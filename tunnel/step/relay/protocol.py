"""The relay: it runs programs and opens connections inside a job, for one client.

It is sent to python3 on standard input, and speaks frames there and on standard output;
protocol.go describes them. It needs Python 3.6 and nothing else. If that way is lost, the
client may come back by another, over a socket of the relay's own. step.go joins the files
of this folder: this one first.

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
import contextlib
import errno
import fcntl
import functools
import glob
import itertools
import json
import os
import pwd
import re
import select
import signal
import socket
import struct
import tempfile
import termios
import time

# As in protocol.go.
(HELLO, PING, END, OPEN, OPENED, REFUSED, DATA, STDERR, EOF, WINDOW, CLOSE, EXIT, RESIZE, SIGNAL, EOW, SERVER, ACK, CELL, DONE,
 TAKEN, KERNELS) = range(1, 22)
WINDOW_SIZE = 2 << 20
FRAME_LIMIT = 256 << 10
HEADER = struct.Struct(">IBI")
SIZE = struct.Struct(">HHHH")
NUMBER = struct.Struct(">I")
COUNT = struct.Struct(">Q")

READ, WRITE = select.POLLIN, select.POLLOUT


def words(err):
    """What the system says of an error."""
    return getattr(err, "strerror", None) or str(err)


def decode(text):
    return binascii.a2b_base64(text)
