//go:build unix && !linux

package peer

import "fmt"

// HolderHint says how to find the program that listens on a port.
func HolderHint(port int) string {
	return fmt.Sprintf("; `lsof -i :%d` shows which program uses it", port)
}
