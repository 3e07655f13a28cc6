package tray

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"tunctl/internal/api"
)

// silentTray is the instance that shows no notifications.
const silentTray = "silent"

// playTray runs the tray as a process of its own: events come in as JSON, one a line, and requests go out as lines of
// words. It exits 0 when it ended
// well, 1 when it said why it did not.
func playTray() int {
	say := func(line string) { fmt.Println(line) }
	p := &script{events: make(chan api.Event), say: say}
	go func() {
		in := bufio.NewScanner(os.Stdin)
		in.Buffer(nil, 1<<20)
		for in.Scan() {
			var e api.Event
			_ = json.Unmarshal(in.Bytes(), &e) // what is none, such as "gone", is the agent's end
			p.events <- e
		}
		close(p.events)
	}()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	o := p.options()
	o.Instance = os.Getenv("TUNCTL_TEST_TRAY")
	o.ConfigPath = os.Args[0]
	o.Notify = func(string) bool { return o.Instance != silentTray }
	o.Tell = func(message string) { say("tell " + message) }
	if err := Run(ctx, o); err != nil {
		say("error " + err.Error())
		return 1
	}
	return 0
}
