package editor

import (
	"net/url"
	"strings"
	"testing"
)

func TestOpenArguments(t *testing.T) {
	for _, path := range []string{"/home/ann", "/scratch/run 7/50%/a#b?c", "/home/ann/ü/it's", "/"} {
		for _, isFile := range []bool{false, true} {
			args := OpenArguments("work.tun", path, isFile)
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
