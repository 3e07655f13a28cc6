package real

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

func runRole(role, dir string, args []string) error {
	switch role {
	case "keeper":
		return runKeeper(dir)
	case "node":
		return runNode(dir, args[0])
	case "delay":
		return runDelay(dir, args)
	default:
		return fmt.Errorf("unknown role %q", role)
	}
}

// sayReady ends the wait of the process that started this one, and lets go of it.
func sayReady() error {
	fmt.Println(ready)
	return os.Stdout.Close()
}

// lifeline is a pipe that ends when the keeper does.
func lifeline(dir string) (*os.File, error) {
	return os.OpenFile(filepath.Join(dir, "life"), os.O_RDONLY|syscall.O_NONBLOCK, 0)
}

// endWith ends this process when the lifeline does.
func endWith(life *os.File) {
	_, _ = io.Copy(io.Discard, life)
	os.Exit(0)
}

// machineNet is the descriptor of the machine's network namespace in the keeper,
// which is born into that of the switch.
const machineNet = 3

// runKeeper is the switch: its network namespace has the bridges, and packets
// between laptop and cluster pass through it. When its owner is gone, or asks, it
// removes the lab.
func runKeeper(dir string) error {
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM, syscall.SIGINT)
	life, err := os.OpenFile(filepath.Join(dir, "life"), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0); err != nil {
		return err
	}
	if err := sayReady(); err != nil {
		return err
	}
	go func() {
		word, _ := io.ReadAll(os.Stdin)
		if string(word) != keepRunning {
			end <- syscall.SIGTERM
		}
	}()
	<-end

	r, err := readRecord(dir)
	if err != nil {
		return err
	}
	_ = life.Close()
	return r.remove(dir, runOnMachine)
}

// runOnMachine is run, in the machine's network.
func runOnMachine(input string, argv ...string) (string, error) {
	self := fmt.Sprintf("--net=/proc/%d/fd/%d", os.Getpid(), machineNet)
	return run(input, append([]string{"nsenter", self, "--"}, argv...)...)
}

// reap collects the ends of orphans, as a pid 1 must.
func reap() {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	for {
		for {
			pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
			if pid <= 0 || err != nil {
				break
			}
		}
		<-ended
	}
}
