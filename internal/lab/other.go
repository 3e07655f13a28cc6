//go:build !linux

package lab

// holdPort leaves the choice of a port to the listener: only Linux allows a program to
// listen on a port that it already holds.
func holdPort() (addr string, release func(), err error) {
	return "127.0.0.1:0", func() {}, nil
}

// killLeftovers cannot find processes that left their job's group.
func (c *Cluster) killLeftovers() {}
