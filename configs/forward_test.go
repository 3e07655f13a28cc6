package configs

import (
	"errors"
	"testing"

	"tunctl/internal/api"
)

func TestForwardsAreReadAsSSHReadsThem(t *testing.T) {
	setHome(t, "/home/alice")
	const local, remote, dynamic = api.ForwardLocal, api.ForwardRemote, api.ForwardDynamic
	for spec, want := range map[string]ForwardSpec{
		"5432:db.int:5432":                {local, "127.0.0.1:5432", "db.int:5432"},
		"L:5432:db.int:5432":              {local, "127.0.0.1:5432", "db.int:5432"},
		"10.0.0.1:80:db:81":               {local, "10.0.0.1:80", "db:81"},
		"localhost:80:db:81":              {local, "localhost:80", "db:81"},
		"*:80:db:81":                      {local, ":80", "db:81"},
		":80:db:81":                       {local, ":80", "db:81"},
		"[::1]:80:[fe80::1]:81":           {local, "[::1]:80", "[fe80::1]:81"},
		"8080:/run/web.sock":              {local, "127.0.0.1:8080", "/run/web.sock"},
		"/tmp/pg.sock:db:5432":            {local, "/tmp/pg.sock", "db:5432"},
		"~/a.sock:/run/b.sock":            {local, "/home/alice/a.sock", "/run/b.sock"},
		"8080:~/b.sock":                   {local, "127.0.0.1:8080", "~/b.sock"},
		"D:~/socks":                       {dynamic, "/home/alice/socks", ""},
		"R:~/r.sock:~/a.sock":             {remote, "~/r.sock", "/home/alice/a.sock"},
		"L:D:/a.sock:db:5432":             {local, "D:/a.sock", "db:5432"},
		"C:/a.sock:db:5432":               {local, "C:/a.sock", "db:5432"},
		"R:9000:localhost:9000":           {remote, "localhost:9000", "localhost:9000"},
		"R:*:9000:localhost:9000":         {remote, ":9000", "localhost:9000"},
		"R:/tmp/r.sock:/run/user/1/x":     {remote, "/tmp/r.sock", "/run/user/1/x"},
		"R:9000:[2001:db8::1]:443":        {remote, "localhost:9000", "[2001:db8::1]:443"},
		"D:1080":                          {dynamic, "127.0.0.1:1080", ""},
		"D:[::1]:1080":                    {dynamic, "[::1]:1080", ""},
		"D:/tmp/socks":                    {dynamic, "/tmp/socks", ""},
		"6006":                            {local, "127.0.0.1:6006", "localhost:6006"},
		"L:6006":                          {local, "127.0.0.1:6006", "localhost:6006"},
		"8787:8788":                       {local, "127.0.0.1:8787", "localhost:8788"},
		"*:8787:8788":                     {local, ":8787", "localhost:8788"},
		"R:9000:9001":                     {remote, "localhost:9000", "localhost:9001"},
		"0:6006":                          {local, "127.0.0.1:0", "localhost:6006"},
		"0:db:5432":                       {local, "127.0.0.1:0", "db:5432"},
		"0:/run/web.sock":                 {local, "127.0.0.1:0", "/run/web.sock"},
		"D:0":                             {dynamic, "127.0.0.1:0", ""},
		"/tmp/a:b:5432":                   {local, "/tmp/a", "b:5432"},
		"65535:node-1.cluster_x.org:1":    {local, "127.0.0.1:65535", "node-1.cluster_x.org:1"},
		"L:127.0.0.1:080:127.0.0.1:00080": {local, "127.0.0.1:80", "127.0.0.1:80"},
	} {
		got, err := ParseForward(spec)
		if err != nil || got != want {
			t.Errorf("%q reads as %+v, %v; want %+v", spec, got, err, want)
			continue
		}
		if again, err := ParseForward(got.String()); err != nil || again != got {
			t.Errorf("%q, written as %q, reads as %+v, %v", spec, got, again, err)
		}
	}
}

func TestBadForwardsAreExplained(t *testing.T) {
	const colons = "too many colons; put an IPv6 address in brackets"
	for spec, want := range map[string]string{
		"":                     `"" is neither a port nor a socket path`,
		"db":                   `"db" is neither a port nor a socket path`,
		"D:":                   `"" is neither a port nor a socket path`,
		"db.int:5432":          `the target is missing`,
		"0":                    `"0" is not a port between 1 and 65535`,
		"6006:0":               `"0" is not a port between 1 and 65535`,
		"80:db:0":              `"0" is not a port between 1 and 65535`,
		"65536":                `"65536" is not a port between 1 and 65535`,
		"R:0:localhost:80":     `port 0, for any free one, works only on this computer`,
		"D:1080:80":            `a D: forward has no target`,
		"R:8888":               `the target is missing`,
		"5432:db":              `the target "db" has no port`,
		"5432:db:":             `"" is not a port between 1 and 65535`,
		"5432::5432":           `the target's host is missing`,
		"80:db:65536":          `"65536" is not a port between 1 and 65535`,
		"db:http:x:80":         `"http" is not a port between 1 and 65535`,
		"D:1080:db:80":         `a D: forward has no target`,
		"80:fe80::1:80":        colons,
		"1:2:3:4:5":            colons,
		"80:[db]:80":           `only an IPv6 address may be in brackets`,
		"80:[::1]80":           `only an IPv6 address may be in brackets`,
		"[::1":                 `only an IPv6 address may be in brackets`,
		"5432 db.int:5432":     `spaces are not allowed`,
		"80:/run/a.sock:80":    `"/run/a.sock" is not a host`,
		"80:db:80\n":           `spaces are not allowed`,
		"80:/run/a.sock:extra": `"extra" is not a port between 1 and 65535`,
	} {
		got, err := ParseForward(spec)
		if err == nil {
			t.Errorf("%q reads as %+v", spec, got)
			continue
		}
		e, ok := errors.AsType[*api.Error](err)
		if !ok || e.Code != api.CodeUsage || e.Hint == "" || e.Unwrap().Error() != want {
			t.Errorf("%q: %v, want %s", spec, err, want)
		}
	}
}
