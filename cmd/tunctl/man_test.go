package main

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"

	"tunctl/internal/cmdline"
	"tunctl/internal/dev/manpage"

	"github.com/urfave/cli/v2"
)

func TestEveryCommandHasAManPageWithEveryFlag(t *testing.T) {
	app := testApp()
	pages := manpage.All(app)
	for _, c := range app.Commands {
		page, ok := pages["tunctl-"+c.Name+".1"]
		if ok == c.Hidden {
			t.Errorf("the page of %q: %v, though hidden is %v", c.Name, ok, c.Hidden)
		}
		if c.Hidden {
			continue
		}
		if !strings.Contains(pages["tunctl.1"], strings.ReplaceAll("tunctl-"+c.Name+"(1)", "-", `\-`)) {
			t.Errorf("tunctl(1) does not name %q", c.Name)
		}
		for _, one := range append([]*cli.Command{c}, c.Subcommands...) {
			for _, f := range cmdline.VisibleFlags(one.Flags) {
				for _, name := range f.Names() {
					if !strings.Contains(page, strings.ReplaceAll("-"+name, "-", `\-`)) {
						t.Errorf("tunctl-%s(1) does not name --%s of %q", c.Name, name, one.Name)
					}
				}
			}
		}
	}
}

func TestTroffHasNothingToSayAboutAManPage(t *testing.T) {
	groff, err := exec.LookPath("groff")
	if err != nil {
		t.Skip("no groff here")
	}
	for name, text := range manpage.All(testApp()) {
		cmd := exec.CommandContext(t.Context(), groff, "-ww", "-Kutf8", "-Tutf8", "-man")
		cmd.Stdin = strings.NewReader(text)
		var complaints bytes.Buffer
		cmd.Stderr = &complaints
		out, err := cmd.Output()
		if err != nil || complaints.Len() > 0 {
			t.Errorf("%s: %v\n%s", name, err, complaints.String())
		}
		if !bytes.Contains(out, []byte("User Commands")) {
			t.Errorf("%s has no head:\n%s", name, out)
		}
	}
}
