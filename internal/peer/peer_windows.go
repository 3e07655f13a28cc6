package peer

// HolderHint says how to find the program that listens on a port.
func HolderHint(int) string { return "; `netstat -ano` lists which process uses it" }
