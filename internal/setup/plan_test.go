package setup

import (
	"strings"
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

func TestASecondClusterOfASiteIsAHostOfItsOwn(t *testing.T) {
	cfg, err := configs.Parse("config.toml", []byte("[host.sigma2]\nssh = \"ann@saga.sigma2.no\"\nsite = \"sigma2\"\n"))
	if err != nil {
		t.Fatal(err)
	}
	site := configs.Site{Name: "sigma2", Entrances: []configs.Entrance{{Name: "saga", Host: "saga.sigma2.no"}, {Name: "betzy", Host: "betzy.sigma2.no"}}}
	for _, c := range []struct{ argument, ssh, want string }{
		{"sigma2", "ann@saga.sigma2.no", "sigma2"}, // it is the same
		{"sigma2", "ann@betzy.sigma2.no", "betzy"},
		{"saga", "ann@saga.sigma2.no", "saga"},
		{"sigma2", "my-alias", "sigma2"},
	} {
		if got := hostName(cfg, c.argument, site, c.ssh); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

func TestThePlanSaysWhatToReplaceInACertificateCommand(t *testing.T) {
	for renew, want := range map[string]string{
		"clifton auth":        "Remove the # to use it.\n# before_login = \"clifton auth\"\n",
		"sshproxy.sh -u USER": "Replace the words in capitals, and remove the #.\n# before_login = \"sshproxy.sh -u USER\"\n",
	} {
		site := configs.Site{Name: "far", Title: "Far", Certificate: configs.Certificate{Renew: renew}}
		p := plan{job: configs.Job{App: "jupyter", Site: site}, host: "far", ssh: "far", session: "jupyter", jobName: "jupyter"}
		if text, err := p.text(); err != nil || !strings.Contains(text, want) {
			t.Errorf("%v\n%s", err, text)
		}
	}
}
