package main

import (
	"testing"

	"tunctl/configs"
)

func TestNoTwoSessionsOfInitShareAJob(t *testing.T) {
	cfg, err := configs.Parse("config.toml", []byte(`
[host.aspire2a]
site = "aspire2a"
[session.jupyter-aspire2a]
host   = "aspire2a"
job    = "jupyter-aspire2"
submit = "builtin:jupyter"
[session.elsewhere]
host   = "narval"
job    = "lab"
submit = "~/lab.sh"
`))
	if err != nil {
		t.Fatal(err)
	}
	site := configs.Site{Name: "aspire2a", Scheduler: "pbs"}
	for session, want := range map[string]string{
		"jupyter":          "jupyter",
		"jupyter-aspire2b": "jupyter-aspir-2", // PBS cuts it as it does the first
		"lab":              "lab",             // the other is of another cluster
	} {
		if got := jobName(cfg, site, "aspire2a", session); got != want {
			t.Errorf("%s: %q, want %q", session, got, want)
		}
	}
}
