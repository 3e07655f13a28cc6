package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"tunctl/tunnel"
)

// askpass is what the program is to an ssh that logs in for the agent: it passes the
// question on, and prints the answer.
func askpass(socket string, args []string, stdout, stderr io.Writer) int {
	answer, err := tunnel.Askpass(context.Background(), socket, strings.Join(args, " "))
	if err != nil {
		fmt.Fprintf(stderr, "tunctl: %v\n", err)
		return exitFailed
	}
	fmt.Fprintln(stdout, answer)
	return 0
}
