package show

import (
	"testing"

	"tunctl/internal/api"
)

func TestAForwardIsToldInWords(t *testing.T) {
	t.Parallel()
	for want, f := range map[string]api.Forward{
		"127.0.0.1:5432 on this machine goes to db.int:5432, as seen from narval":         {Kind: api.ForwardLocal, Listen: "127.0.0.1:5432", Target: "db.int:5432"},
		"127.0.0.1:8000 on this machine goes to port 80 on narval":                        {Kind: api.ForwardLocal, Listen: "127.0.0.1:8000", Target: "localhost:80"},
		"127.0.0.1:8001 on this machine goes to port 80 on narval":                        {Kind: api.ForwardLocal, Listen: "127.0.0.1:8001", Target: "[::1]:80"},
		"/tmp/a.sock on this machine goes to /run/app.sock on narval":                     {Kind: api.ForwardLocal, Listen: "/tmp/a.sock", Target: "/run/app.sock"},
		"localhost:9000 on narval goes to localhost:9001 on this machine":                 {Kind: api.ForwardRemote, Listen: "localhost:9000", Target: "localhost:9001"},
		"127.0.0.1:1080 on this machine is a SOCKS5 proxy; connections leave from narval": {Kind: api.ForwardDynamic, Listen: "127.0.0.1:1080"},
	} {
		if got := Forward(f, "narval"); got != want {
			t.Errorf("%+v:\n%s\nwant\n%s", f, got, want)
		}
	}
}
