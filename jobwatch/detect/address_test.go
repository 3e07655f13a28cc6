package detect

import "testing"

func TestURLsAreReadAsServersPrintThem(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]address{
		"http://n003:8888/lab?token=abc":                   {scheme: "http", host: "n003", port: 8888, path: "/lab", token: "abc"},
		"https://n003/":                                    {scheme: "https", host: "n003", port: 443, path: "/"},
		"http://n003":                                      {scheme: "http", host: "n003", port: 80, path: "/"},
		"(http://n003:1/x).":                               {scheme: "http", host: "n003", port: 1, path: "/x"},
		"see http://n003:1/a_(b), then":                    {scheme: "http", host: "n003", port: 1, path: "/a_(b)"},
		"<http://n003:1/x>":                                {scheme: "http", host: "n003", port: 1, path: "/x"},
		"URL=http://n003:1/x":                              {scheme: "http", host: "n003", port: 1, path: "/x"},
		"http://(n003 or 127.0.0.1):8888/?token=a":         {scheme: "http", host: "n003", port: 8888, path: "/", token: "a"},
		"http://[all ip addresses on your system]:8888/":   {scheme: "http", host: "[all ip addresses on your system]", port: 8888, path: "/"},
		"http://[::]:8888/":                                {scheme: "http", host: "::", port: 8888, path: "/"},
		"http://::1:8993/":                                 {scheme: "http", host: "::1", port: 8993, path: "/"},
		"http://:::8993/":                                  {scheme: "http", host: "::", port: 8993, path: "/"},
		"http://:8000/":                                    {scheme: "http", port: 8000, path: "/"},
		"http://*:8000/":                                   {scheme: "http", host: "*", port: 8000, path: "/"},
		"http://ann@n003:8000/":                            {scheme: "http", host: "n003", port: 8000, path: "/"},
		"http://localhost:<port>/?token=<TOKEN>":           {scheme: "http", host: "localhost", path: "/", token: "<TOKEN>"},
		"http://n003:1/?token=...":                         {scheme: "http", host: "n003", port: 1, path: "/", masked: true},
		"http://n003:1/?token=----":                        {scheme: "http", host: "n003", port: 1, path: "/", masked: true},
		"http://n003:1/?a=b&token=x%2Fy#top":               {scheme: "http", host: "n003", port: 1, path: "/", token: "x/y"},
		"http://n003:1?access_token=x":                     {scheme: "http", host: "n003", port: 1, path: "/", token: "x"},
		"http+unix://%2Ftmp%2Fa.sock/tree":                 {scheme: "http", socket: "/tmp/a.sock", path: "/tree"},
		"[http://n003:1/?token=ab](http://n003:1/?token=)": {scheme: "http", host: "n003", port: 1, path: "/", token: "ab"},
		`{"log":"http://n003:1/?token=ab\n"}`:              {scheme: "http", host: "n003", port: 1, path: "/", token: "ab"},
	} {
		urls := findURLs(text)
		if len(urls) == 0 {
			t.Errorf("%q: no URL", text)
			continue
		}
		if got := urls[0].address; got != want {
			t.Errorf("%q:\n got %#v\nwant %#v", text, got, want)
		}
	}
}

func TestOtherSchemesAreNoURLs(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"tcp://n003:8786", "file:///home/ann/x.html", "spark://n003:7077", "://", "http:/x"} {
		if urls := findURLs(text); len(urls) != 0 {
			t.Errorf("%q: %+v", text, urls)
		}
	}
}

func TestAHostIsWorthWhatItNames(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]hostKind{
		"n003": namedHost, "10.3.0.7": namedHost, "fd00::7": namedHost, "localhost": loopbackHost, "127.0.1.1": loopbackHost, "::1": loopbackHost,
		"[::1]": loopbackHost, "0.0.0.0": wildcardHost, "::": wildcardHost, "*": wildcardHost, "[all ip addresses on your system]": wildcardHost,
		"hostname": noHost, "HOSTNAME": noHost, "<node>": noHost, "${NODE}": noHost, "": noHost,
	} {
		if got := (address{host: host}).kind(); got != want {
			t.Errorf("%q: place %d, want %d", host, got, want)
		}
	}
}

func TestOnlyAPlausibleTokenIsReal(t *testing.T) {
	t.Parallel()
	for token, want := range map[string]bool{
		"0123456789abcdef0123456789abcdef0123456789abcdef": true,
		"Q2QwZyLs8kJP8eHLcNv13A":                           true,
		"<your token here please>":                         false,
		"abc123":                                           false,
		"your-token-goes-in-here":                          false,
		"0123456789abcdef...":                              false,
	} {
		if got := (address{token: token}).hasRealToken(); got != want {
			t.Errorf("%q: %v, want %v", token, got, want)
		}
	}
}
