package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"tunctl/configs"
	"tunctl/internal/api"
	"tunctl/internal/home"
	"tunctl/internal/lists"
	"tunctl/internal/show"
	"tunctl/internal/suggest"
	"tunctl/internal/term"
	"tunctl/internal/words"
)

func sitesCommand(t *term.Terminal) *cli.Command {
	return &cli.Command{
		Name:      "sites",
		Usage:     "list, search or show the clusters that tunctl knows",
		ArgsUsage: "[SITE|WORD] | check FILE",
		Flags:     []cli.Flag{&cli.BoolFlag{Name: "json", Usage: "print JSON"}},
		Action: invoke(t, func(ctx context.Context, inv *invocation) error {
			switch {
			case inv.Args().First() == "check" && inv.NArg() == 2:
				return checkSite(ctx, inv, inv.Args().Get(1))
			case inv.Args().First() == "check":
				return usagef("sites check takes one site file")
			case inv.NArg() > 1:
				return usagef("unexpected argument %q: sites takes one site", inv.Args().Get(1))
			}
			sites := loadSites(inv.Terminal, inv.paths)
			if word := inv.Args().First(); word != "" {
				site, err := sites.Find(word)
				if err == nil {
					return showSite(inv, site)
				}
				if sites, err = searchSites(sites, word, err); err != nil {
					return err
				}
			}
			if inv.Bool("json") {
				return inv.PrintIndentedJSON(sites)
			}
			return listSites(inv.Out, sites, inv.paths)
		}),
	}
}

func listSites(out io.Writer, sites configs.Sites, p home.Paths) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "SITE\tSCHEDULER\tDESCRIPTION")
	for _, s := range sites {
		title := s.Label()
		switch {
		case s.Path != "" && filepath.Dir(s.Path) == p.Sites:
			title += " (installed by your administrator)"
		case s.Path != "":
			title += " (your own)"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", s.Name, cmp.Or(s.Scheduler, "-"), title)
	}
	return w.Flush()
}

func showSite(inv *invocation, s configs.Site) error {
	s.Questions = (&configs.Job{App: "jupyter", Site: s}).Questions() // also those of every job
	if inv.Bool("json") {
		return inv.PrintIndentedJSON(s)
	}
	describeSite(inv.Out, s)
	return nil
}

// searchSites are the sites that a word is about; notFound is the error if there are none.
func searchSites(sites configs.Sites, word string, notFound error) (configs.Sites, error) {
	if found := sites.Search(strings.Fields(word)...); len(found) > 0 {
		return found, nil
	}
	if near := suggest.Nearest(word, sites.SearchWords()); len(near) > 0 {
		return nil, api.ReplaceHint(notFound, "did you mean %q? `tunctl sites` lists them all", near[0])
	}
	return nil, api.ReplaceHint(notFound, "`tunctl sites` lists them all; any other cluster works, too: `tunctl init HOST`")
}

// describeSite prints everything known about a site.
func describeSite(w io.Writer, s configs.Site) {
	width := term.LayoutFor(w).Width
	line := func(indent int, text string) {
		if width > 0 {
			text = strings.Join(term.Wrap(text, width, indent), "\n")
		}
		fmt.Fprintln(w, text)
	}
	fmt.Fprintf(w, "%s: %s\n", s.Name, s.Label())
	fact := func(what, text string) {
		if text == "" {
			return
		}
		entry := fmt.Sprintf("  %-12s %s", what, text)
		if !strings.Contains(text, " ") { // an address stays whole, beside what it is
			fmt.Fprintln(w, entry)
			return
		}
		line(15, entry)
	}
	fact("country", s.Country)
	if !s.Verified {
		fact("not verified", configs.GapsText)
	}
	fact("scheduler", s.Scheduler)
	for _, e := range s.Entrances {
		fact("login node", entranceText(e))
	}
	fact("transfer", s.Transfer)
	fact("portal", s.Portal)
	fact("SSH keys", s.Keys)
	fact("host keys", s.HostKeysPage)
	fact("before login", s.Before)
	fact("login", s.Login)
	fact("login page", strings.Join(s.LoginPages, ", "))
	fact("certificate", s.Certificate.Text())
	fact("reach", strings.Join(lists.Map(s.Reach, func(r api.Reach) string { return string(r) }), ", then "))
	fact("dials", strings.Join(s.Dial, ", then "))
	fact("requires", strings.Join(s.Require, "; "))
	fact("tunctl files", s.Private)
	fact("limits", limitsText(s))
	for _, q := range s.Queues {
		fact("queue", strings.TrimSpace(q.Name+"  "+q.Limits()))
	}
	fact("quota", strings.Join(s.Balance, "; "))
	fact("charged", s.Charge.Words())
	for _, n := range s.Notes {
		fact("note", n)
	}
	for _, u := range s.Unsure {
		what, text, _ := strings.Cut(u, ":")
		fact("not verified", configs.TopicText(what)+":"+text)
	}
	for _, h := range s.Help {
		fact("help", h)
	}
	fact("file", s.Path)
	if len(s.Questions) > 0 {
		line(2, "  settings of the job, for with = { … } in the session's section of the config:")
	}
	for _, q := range s.Questions {
		line(15, fmt.Sprintf("    %-10s %s%s", q.Name, q.Ask, q.DefaultText()))
	}
}

// entranceText is the address of a login node and what to know about it.
func entranceText(e configs.Entrance) string {
	text := e.Host
	if e.Port != 0 {
		text = e.Address(e.Host)
	}
	if e.Jump != "" {
		text += " through " + e.Jump
	}
	return strings.TrimSpace(text + "  " + e.About)
}

// limitsText says what tunctl does less often at the site than elsewhere.
func limitsText(s configs.Site) string {
	var parts []string
	add := func(set bool, format string, value any) {
		if set {
			parts = append(parts, fmt.Sprintf(format, value))
		}
	}
	period := func(p configs.Period) string { return api.DurationText(time.Duration(p)) }
	add(s.Query > 0, "queries of the scheduler at least %s apart", period(s.Query))
	add(s.Limits.Sessions > 0, "%s at a time", words.Count(s.Limits.Sessions, "command"))
	add(s.Limits.LoginSpacing > 0, "automatic logins at least %s apart", period(s.Limits.LoginSpacing))
	add(s.Limits.Retry > 0, "attempts to connect at least %s apart", period(s.Limits.Retry))
	add(s.Limits.Refusals > 0, "no login after %s", words.Count(s.Limits.Refusals, "refusal"))
	return strings.Join(parts, "; ")
}

// checkSite reads a site file and reports what is wrong with it, and what is missing.
func checkSite(ctx context.Context, inv *invocation, file string) error {
	own := configs.SitesFolder(inv.paths.Config)
	report, err := configs.CheckSite(file, own, inv.paths.Sites)
	if err != nil {
		return err
	}
	if inv.Bool("json") {
		if err := inv.PrintIndentedJSON(struct {
			Site    configs.Site          `json:"site"`
			Missing []configs.MissingFact `json:"missing"`
		}{report.Site, append([]configs.MissingFact{}, report.Missing...)}); err != nil { // [] if there are none
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
			line(term.Green, "✓", "read.%s: %s: %s", r.Name, b.Name, show.Balance(b))
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
