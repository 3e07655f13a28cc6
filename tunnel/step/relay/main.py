OPTIONS = json.loads(sys.stdin.buffer.readline().decode())
Relay(OPTIONS).run(OPTIONS["mark"])
