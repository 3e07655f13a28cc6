# Modes of a terminal, by their numbers in RFC 4254, section 8: where Python has them.
CHARACTERS = {1: "VINTR", 2: "VQUIT", 3: "VERASE", 4: "VKILL", 5: "VEOF", 6: "VEOL", 7: "VEOL2", 8: "VSTART", 9: "VSTOP",
              10: "VSUSP", 12: "VREPRINT", 13: "VWERASE", 14: "VLNEXT", 18: "VDISCARD"}
INPUT = {30: "IGNPAR", 31: "PARMRK", 32: "INPCK", 33: "ISTRIP", 34: "INLCR", 35: "IGNCR", 36: "ICRNL", 38: "IXON",
         39: "IXANY", 40: "IXOFF", 41: "IMAXBEL", 42: "IUTF8"}
LOCAL = {50: "ISIG", 51: "ICANON", 53: "ECHO", 54: "ECHOE", 55: "ECHOK", 56: "ECHONL", 57: "NOFLSH", 58: "TOSTOP",
         59: "IEXTEN", 60: "ECHOCTL", 61: "ECHOKE", 62: "PENDIN"}
OUTPUT = {70: "OPOST", 72: "ONLCR", 73: "OCRNL", 74: "ONOCR", 75: "ONLRET"}


def set_size(fd, size):
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", *size))


def configure(fd, terminal):
    """Sets size and modes of a terminal."""
    set_size(fd, terminal["size"])
    attributes = termios.tcgetattr(fd)
    for mode, value in terminal["modes"]:
        for index, table in ((0, INPUT), (1, OUTPUT), (3, LOCAL)):
            # IUTF8 is missing before Python 3.14.
            bit = getattr(termios, table.get(mode, ""), 0o40000 if mode == 42 and not index else 0)
            attributes[index] = attributes[index] | bit if value else attributes[index] & ~bit
        if mode in CHARACTERS:
            # 255 turns the character off; Linux writes that as 0.
            attributes[6][getattr(termios, CHARACTERS[mode])] = bytes([value & 255 if value != 255 else 0])
    with contextlib.suppress(termios.error):  # a client may ask for what no terminal has
        termios.tcsetattr(fd, termios.TCSANOW, attributes)
