def where():
    """What sees the relay's socket: this network namespace of this boot."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as f:
            return f.read().strip() + " " + os.readlink("/proc/self/ns/net")
    except OSError:
        return ""
