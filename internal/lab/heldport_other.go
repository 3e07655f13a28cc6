//go:build !linux

package lab

// holdPort leaves the choice of a port to whoever listens: only Linux lets a program
// listen on a port that it holds already.
func holdPort() (addr string, release func(), err error) {
	return "127.0.0.1:0", func() {}, nil
}
