package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"time"

	"tunctl/internal/dev/real"
)

// with does something with the lab that is up.
func with(c *real.Cluster, verb string, args []string) error {
	first := ""
	if len(args) > 0 {
		first = args[0]
	}
	named := map[string]func(string) error{
		"cut": c.Cut, "restore": c.Restore, "crash": c.Crash, "boot": c.Boot,
		"freeze": c.FreezeConns, "thaw": c.ContConns, "kill": c.KillConns,
		"stop": c.StopSSHD, "start": c.StartSSHD, "restart": c.RestartSSHD, "rotate": c.RotateHostKey, "unrotate": c.RestoreHostKey,
		"controller": func(what string) error { return controller(c, what) },
	}
	if do, ok := named[verb]; ok {
		return do(first)
	}
	switch verb {
	case "status":
		return printed(c.Status())
	case "code":
		return printed(c.Code())
	case "roam":
		return printed(c.Roam())
	case "delay":
		return delay(c, args)
	case "ssh":
		return interactive(append([]string{"ssh", "-F", c.SSHConfig()}, args...), nil)
	case "shell":
		return interactive(c.Shell(first))
	default:
		return fmt.Errorf("unknown command %q; labctl help lists them", verb)
	}
}

func printed(text string, err error) error {
	if err == nil {
		fmt.Println(text)
	}
	return err
}

func controller(c *real.Cluster, what string) error {
	do, ok := map[string]func() error{
		"stop": c.StopController, "start": c.StartController,
		"freeze": c.FreezeController, "thaw": c.ContController,
	}[what]
	if !ok {
		return fmt.Errorf("controller %q: stop, start, freeze or thaw", what)
	}
	return do()
}

func delay(c *real.Cluster, args []string) error {
	if len(args) == 0 {
		return errors.New("delay: how long? such as 100ms")
	}
	rtt, err := time.ParseDuration(args[0])
	if err != nil {
		return err
	}
	loss := 0.0
	if len(args) > 1 {
		if loss, err = strconv.ParseFloat(args[1], 64); err != nil {
			return err
		}
	}
	return c.Delay(rtt, loss)
}

// interactive gives the terminal to a command.
func interactive(argv []string, err error) error {
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(context.Background(), argv[0], argv[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err = cmd.Run()
	// A shell's last status is the user's own business.
	if _, ok := errors.AsType[*exec.ExitError](err); ok {
		return nil
	}
	return err
}
