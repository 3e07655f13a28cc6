def main():
    options = json.loads(sys.stdin.buffer.readline().decode())
    Relay(options).run(options["mark"])


main()
