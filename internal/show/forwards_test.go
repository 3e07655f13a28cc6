package show

import (
	"testing"

	"tunctl/internal/api"
)

func TestForward(t *testing.T) {
	t.Parallel()
	for want, f := range map[string]api.Forward{
		"127.0.0.1:5432 → db.int:5432 through narval":    {Kind: api.ForwardLocal, Listen: "127.0.0.1:5432", Target: "db.int:5432"},
		"127.0.0.1:8000 → localhost:80 on narval":        {Kind: api.ForwardLocal, Listen: "127.0.0.1:8000", Target: "localhost:80"},
		"127.0.0.1:8001 → [::1]:80 on narval":            {Kind: api.ForwardLocal, Listen: "127.0.0.1:8001", Target: "[::1]:80"},
		"127.0.0.1:8002":                                 {Kind: api.ForwardLocal, Listen: "127.0.0.1:8002"},
		"/tmp/a.sock → /run/app.sock on narval":          {Kind: api.ForwardLocal, Listen: "/tmp/a.sock", Target: "/run/app.sock"},
		"localhost:9000 on narval → localhost:9001 here": {Kind: api.ForwardRemote, Listen: "localhost:9000", Target: "localhost:9001"},
		"127.0.0.1:1080 is a SOCKS proxy on narval":      {Kind: api.ForwardDynamic, Listen: "127.0.0.1:1080"},
	} {
		if got := Forward(f, "narval"); got != want {
			t.Errorf("%+v:\n%s\nwant\n%s", f, got, want)
		}
	}
}
