package jobwatch

import "context"

// RunLogin runs a script on the host with the environment of a login shell, for
// what only the site's own programs can tell.
func RunLogin(ctx context.Context, r Runner, script string) (Result, error) {
	return readShell(r).login(ctx, script)
}
