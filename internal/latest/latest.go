// Package latest passes the latest of several values, or a signal, from one goroutine to another.
package latest

// Offer puts v into a channel of one, replacing a value that was not received yet. Only
// one goroutine may offer to a channel.
func Offer[T any](c chan T, v T) {
	select {
	case <-c:
	default:
	}
	c <- v
}

// IsClosed reports whether a channel that is only closed is closed.
func IsClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Signal sends to a channel of one unless a signal is waiting there already.
func Signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
