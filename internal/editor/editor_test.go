package editor

import (
	"net/url"
	"slices"
	"strings"
	"testing"
)

func TestOpenArguments(t *testing.T) {
	for _, path := range []string{"/home/ann", "/scratch/run 7/50%/a#b?c", "/home/ann/ü/it's", "/"} {
		for _, isFile := range []bool{false, true} {
			args := All[0].OpenArguments("work.tun", path, isFile)
			u, err := url.Parse(args[1])
			if err != nil || u.Path != path || u.Scheme != "vscode-remote" || u.Host != "ssh-remote+work.tun" || u.RawQuery != "" || u.Fragment != "" {
				t.Errorf("%q becomes %q: %+v, %v", path, args[1], u, err)
			}
			if want := map[bool]string{false: "--folder-uri", true: "--file-uri"}[isFile]; args[0] != want {
				t.Errorf("%q is opened by %s", path, args[0])
			}
		}
	}
	for host, want := range map[string]string{
		"work.tun": "work.tun", "my-job_2.tun": "my-job_2.tun",
		"GPU.tun": "7b22686f73744e616d65223a224750552e74756e227d", // {"hostName":"GPU.tun"}
	} {
		if got := authority(host); got != want || got != strings.ToLower(got) {
			t.Errorf("%s is written %q, want %q", host, got, want)
		}
	}
}

func TestOpenArgumentsOthers(t *testing.T) {
	for command, want := range map[string]string{
		"zed":     "ssh://work.tun/home/a%20b/100%25",
		"gateway": "jetbrains-gateway://connect#deploy=false&host=work.tun&projectPath=%2Fhome%2Fa%20b%2F100%25&type=ssh",
	} {
		e := All[slices.IndexFunc(All, func(e Editor) bool { return e.Command == command })]
		if args := e.OpenArguments("work.tun", "/home/a b/100%", false); len(args) != 1 || args[0] != want {
			t.Errorf("%s %q, want %q", command, args, want)
		}
	}
}
