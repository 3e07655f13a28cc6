def where():
    """What sees the relay's socket: this network namespace of this boot."""
    with contextlib.suppress(OSError), open("/proc/sys/kernel/random/boot_id") as f:
        return f.read().strip() + " " + os.readlink("/proc/self/ns/net")
    return ""


def peer(client):
    """The user at the other end of a socket."""
    return struct.unpack("3i", client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[1]
