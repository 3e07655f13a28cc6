package main

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"

	"tunctl/configs"
	"tunctl/internal/term"
)

// checkSite reads a site file and reports what is wrong with it, and what is missing.
func checkSite(ctx context.Context, inv *invocation, file string) error {
	own := configs.SitesFolder(inv.paths.Config)
	report, err := configs.CheckSite(file, own, inv.paths.Sites)
	if err != nil {
		return err
	}
	if inv.Bool("json") {
		missing := report.Missing
		if missing == nil {
			missing = []configs.MissingFact{}
		}
		if err := inv.PrintIndentedJSON(struct {
			Site    configs.Site          `json:"site"`
			Missing []configs.MissingFact `json:"missing"`
		}{report.Site, missing}); err != nil {
			return err
		}
		return checkSyntax(ctx, report)
	}
	l := term.LayoutFor(inv.Out)
	line := func(colour, mark, format string, args ...any) {
		fmt.Fprintf(inv.Out, "%s %s\n", l.Paint(colour, mark), fmt.Sprintf(format, args...))
	}
	line(term.Green, "✓", "%s: %s", report.Site.Name, report.Site.Title)
	if err := checkSyntax(ctx, report); err != nil {
		return err
	}
	for _, s := range report.Scripts {
		line(term.Green, "✓", "builtin:%s for %s: %d lines", s.App, s.Scheduler, bytes.Count(s.Text, []byte("\n")))
	}
	for _, r := range report.Site.Readers {
		for _, b := range r.Read(r.Example) {
			line(term.Green, "✓", "read.%s: %s: %s", r.Name, b.Name, balanceText(b))
		}
	}
	for _, m := range report.Missing {
		line(term.Yellow, "?", "%s is missing: %s", m.Key, m.Lack)
	}
	if used, err := filepath.Abs(file); err == nil && filepath.Dir(used) != own && filepath.Dir(used) != inv.paths.Sites {
		inv.Say("to use it, put it into %s", own)
	}
	return nil
}

// checkSyntax has bash read the scripts, where there is one: a site's setup may not be valid.
func checkSyntax(ctx context.Context, report configs.SiteReport) error {
	bash, err := exec.LookPath("bash")
	if err != nil {
		return nil //nolint:nilerr // the cluster has one
	}
	for _, s := range report.Scripts {
		cmd := exec.CommandContext(ctx, bash, "-n")
		cmd.Stdin = bytes.NewReader(s.Text)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: builtin:%s for %s is not valid in bash: check setup and environment\n%s", report.Site.Path, s.App, s.Scheduler, strings.TrimSpace(string(out)))
		}
	}
	return nil
}
