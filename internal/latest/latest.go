// Package latest passes the latest of several values from one goroutine to another.
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
