package detect

import (
	"strings"
	"testing"

	"tunctl/internal/api"
)

const runtimeFile = `{"base_url": "/", "hostname": "n003", "password": false, "pid": 1857, "port": 18902, "root_dir": "/home/ann",
	"secure": false, "sock": "", "token": "ea0056ac", "url": "http://n003:18902/", "version": "1.23.3"}`

func parseRuntime(t *testing.T, replace ...string) api.Endpoint {
	t.Helper()
	e, err := ParseRuntimeFile([]byte(strings.NewReplacer(replace...).Replace(runtimeFile)))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestTheRuntimeFileTellsTheServersOwnAddress(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		replace []string
		want    string
	}{
		"named":    {nil, "jupyter http://n003:18902/ token=ea0056ac reach=login"},
		"loopback": {[]string{`"hostname": "n003"`, `"hostname": "localhost"`}, "jupyter http://localhost:18902/ token=ea0056ac reach=node node"},
		"wildcard": {[]string{`"hostname": "n003"`, `"hostname": "0.0.0.0"`}, "jupyter http://0.0.0.0:18902/ token=ea0056ac reach=login node"},
		"tls":      {[]string{`"secure": false`, `"secure": true`}, "jupyter https://n003:18902/ token=ea0056ac reach=login"},
		"socket":   {[]string{`"sock": ""`, `"sock": "/tmp/a b.sock"`, "18902", "0"}, "jupyter socket=/tmp/a b.sock / token=ea0056ac reach=node node"},
		"ours":     {[]string{`{"base`, `{"app": "novnc", "base`}, "novnc http://n003:18902/ token=ea0056ac reach=login"},
		"base url": {[]string{`"base_url": "/"`, `"base_url": "/user/ann/"`}, "jupyter http://n003:18902/user/ann/ token=ea0056ac reach=login"},
	} {
		e := parseRuntime(t, c.replace...)
		if got := describe(Finding{Found: true, Endpoint: e}); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
}

func TestARuntimeFileThatIsNoneIsRefused(t *testing.T) {
	t.Parallel()
	for _, data := range []string{"", "{", "[]", "{}", `{"port": 70000}`, `{"port": "x"}`, `{"port": 1, "app": "x"}`} {
		if e, err := ParseRuntimeFile([]byte(data)); err == nil {
			t.Errorf("%q: %+v", data, e)
		}
	}
}

func TestTheRuntimeFileIsBelievedOverTheLog(t *testing.T) {
	t.Parallel()
	lab := "[I 2024-05-02 10:11:12.131 ServerApp] http://%s/lab?token=...\n"
	at := func(where string) string { return strings.ReplaceAll(lab, "%s", where) }
	wild := []string{`"hostname": "n003"`, `"hostname": "0.0.0.0"`}
	for name, c := range map[string]struct {
		log     string
		replace []string
		want    string
	}{
		"the port of a made-up URL": {at("hostname:8888"), nil, "jupyter http://n003:18902/lab token=ea0056ac reach=login"},
		"a hint whose port was taken": {
			"JupyterLab will listen on: n003:8123\nThe port 8123 is already in use, trying another port.\n" + at("hostname:8888"), wild,
			"jupyter http://n003:18902/lab token=ea0056ac reach=login",
		},
		"the node's name is kept where the server listens everywhere": {at("n003:18902"), wild, "jupyter http://n003:18902/lab token=ea0056ac reach=login"},
		"a loopback bind overrules a hint": {
			"JupyterLab will listen on: n003:18902\n",
			[]string{`"hostname": "n003"`, `"hostname": "127.0.0.1"`},
			"jupyter http://127.0.0.1:18902/ token=ea0056ac reach=node node",
		},
		"a base URL the log does not know": {
			at("hostname:8888"),
			[]string{`"base_url": "/"`, `"base_url": "/jupyter/"`},
			"jupyter http://n003:18902/jupyter/ token=ea0056ac reach=login",
		},
		"a reverse tunnel stays": {
			"got login node jupyter port 53102\n" + at("n003:18902"), nil,
			"jupyter http://localhost:53102/lab token=ea0056ac reach=here",
		},
		"nothing in the log": {"", nil, "jupyter http://n003:18902/ token=ea0056ac reach=login"},
	} {
		f := detect(t, c.log).WithRuntime(parseRuntime(t, c.replace...))
		if got := describe(f); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
		}
		if !strings.Contains(f.Why, "runtime file") {
			t.Errorf("%s: why %q", name, f.Why)
		}
	}
}
