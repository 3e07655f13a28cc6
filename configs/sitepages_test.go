package configs

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"tunctl/internal/api"
)

const (
	sitePagesFolder = "../docs/sites"
	madeFromSites   = "<!-- Made from the files of configs/sites; after a change there: go test ./configs -run SitePages -update -->\n"
)

// ownPages are the pages about sites that people wrote.
var ownPages = map[string]string{
	"aspire2a": "aspire2a.md", "cvl-uwa": "m3.md#cvluwa", "dfki": "dfki.md", "fir": "narval.md", "m3": "m3.md", "narval": "narval.md",
	"nibi": "narval.md", "pegasus": "dfki.md#pegasus", "rorqual": "narval.md", "sdumont": "sdumont.md",
}

const siteIndexHead = `# Sites

` + madeFromSites + `
` + "`tunctl init narval`" + ` sets up Narval, and so on; ` + "`tunctl sites`" + ` lists them, too. A cluster that is not here works as well: see
[any other machine](generic.md), or [add it](../adding-a-site.md) with one file.

The settings are as the centres document them. The centres have not reviewed them, and we have not tried them on the machines
themselves. What a centre does not document comes from other public sources, such as scripts of its users, and each page
lists it as not verified. A site that is **not verified** as a whole has such a gap where it matters, such as its login
or how a compute node is reached: expect to correct a setting, and please report it.

`

func TestTheSitePagesSayWhatTheFilesSay(t *testing.T) {
	want := map[string]string{"README.md": siteIndex(builtinSites(t))}
	for _, s := range builtinSites(t) {
		if !s.Generic() && ownPages[s.Name] == "" {
			want[s.Name+".md"] = sitePage(&s)
		}
	}
	if *update {
		for name, text := range want {
			if err := os.WriteFile(filepath.Join(sitePagesFolder, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if got, err := os.ReadFile(filepath.Join(sitePagesFolder, name)); err != nil || string(got) != want[name] {
			t.Errorf("docs/sites/%s is stale (%v): go test ./configs -run SitePages -update", name, err)
		}
	}
	clusters, countries := 0, map[string]bool{}
	for _, s := range builtinSites(t) {
		if !s.Generic() {
			clusters++
			countries[s.Country] = true
		}
	}
	readme, err := os.ReadFile("../README.md")
	if count := fmt.Sprintf("%d clusters in %d countries", clusters, len(countries)); err != nil || !strings.Contains(string(readme), count) {
		t.Errorf("README.md does not say %q (%v)", count, err)
	}
	files, err := filepath.Glob(filepath.Join(sitePagesFolder, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if name := filepath.Base(file); want[name] == "" && strings.Contains(string(text), madeFromSites) {
			t.Errorf("docs/sites/%s is about no site any more: remove it", name)
		}
	}
}

// siteIndex is the list of all sites, by country.
func siteIndex(sites Sites) string {
	byCountry := map[string][]string{}
	for _, s := range sites {
		if s.Generic() {
			continue
		}
		page, doubt := ownPages[s.Name], ""
		if page == "" {
			page = s.Name + ".md"
		}
		if !s.Verified {
			doubt = "not verified"
		}
		byCountry[s.Country] = append(byCountry[s.Country], fmt.Sprintf("| [%s](%s) | %s | %s | %s |\n", s.Name, page, s.Title, s.Scheduler, doubt))
	}
	var b strings.Builder
	b.WriteString(siteIndexHead)
	var links []string
	for _, country := range slices.Sorted(maps.Keys(byCountry)) {
		links = append(links, fmt.Sprintf("[%s](#%s)", country, strings.ReplaceAll(strings.ToLower(country), " ", "-")))
	}
	b.WriteString(strings.Join(links, " ·\n") + "\n")
	for _, country := range slices.Sorted(maps.Keys(byCountry)) {
		fmt.Fprintf(&b, "\n## %s\n\n| name | cluster | scheduler | |\n|---|---|---|---|\n%s", country, strings.Join(byCountry[country], ""))
	}
	return b.String()
}

// sitePage is the page of one site.
func sitePage(s *Site) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n%s\n%s. ", s.Title, madeFromSites, s.Country)
	if !s.Verified {
		b.WriteString("**Not verified as a whole**: " + GapsText + ".\n")
	} else {
		b.WriteString("As the centre documents it, except for what is listed as not verified below.\n")
	}
	b.WriteString("\n| | |\n|---|---|\n")
	row := func(what, text string) {
		if text != "" {
			fmt.Fprintf(&b, "| %s | %s |\n", what, strings.ReplaceAll(text, "|", `\|`))
		}
	}
	row("name", code(s.Name))
	if len(s.Entrances) > 1 {
		names := make([]string, len(s.Entrances))
		for i, e := range s.Entrances {
			names[i] = e.Name
		}
		row("or a login node's", codes(names))
	}
	row("scheduler", s.Scheduler)
	for _, e := range s.Entrances {
		row("login node", entranceText(&e))
	}
	row("before", s.Before)
	row("login", s.Login)
	row("pages of the login", codes(s.LoginPages))
	row("certificate", certificateText(&s.Certificate))
	row("notebook reached", reachText(s))
	row("options that jobs need", codes(s.Require))
	row("files of tunctl", code(s.Private))
	row("copies through", code(strings.TrimPrefix(s.Transfer, noTransfer)))
	row("portal", s.Portal)
	row("SSH keys are registered at", s.Keys)
	row("fingerprints of host keys", s.HostKeysPage)
	row("quota", codes(s.Balance))
	row("charged", s.Charge.Words())
	if s.Query > 0 {
		row("scheduler is queried", "every "+s.Query.Words()+" at most")
	}
	row("connections", limitsText(&s.Limits))
	if len(s.Queues) > 0 {
		b.WriteString("\n| queue or partition | |\n|---|---|\n")
		for _, q := range s.Queues {
			fmt.Fprintf(&b, "| `%s` | %s |\n", q.Name, q.Limits())
		}
	}
	list := func(title string, items []string) {
		if len(items) > 0 {
			fmt.Fprintf(&b, "\n**%s**:\n\n- %s\n", title, strings.Join(items, "\n- "))
		}
	}
	list("Good to know", s.Notes)
	list("Not verified", s.Unsure)
	if len(s.Questions) > 0 {
		b.WriteString("\n| setting of the job | question | default |\n|---|---|---|\n")
		for _, q := range s.Questions {
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", q.Name, strings.ReplaceAll(q.Ask, "|", `\|`), code(q.Default))
		}
	}
	list("Documentation", s.Help)
	return b.String()
}

func code(text string) string {
	if text == "" {
		return ""
	}
	return "`" + text + "`"
}

func codes(list []string) string {
	quoted := make([]string, len(list))
	for i, text := range list {
		quoted[i] = code(text)
	}
	return strings.Join(quoted, ", ")
}

func entranceText(e *Entrance) string {
	text := code(e.Host)
	if e.Port != 0 {
		text += ", port " + strconv.Itoa(e.Port)
	}
	if e.Jump != "" {
		text += ", through " + code(e.Jump)
	}
	if e.About != "" {
		text += ": " + e.About
	}
	return text
}

func certificateText(c *Certificate) string {
	var parts []string
	if c.Lifetime > 0 {
		parts = append(parts, "valid for "+c.Lifetime.Words())
	}
	if c.Renew != "" {
		parts = append(parts, code(c.Renew)+" gets one")
	}
	if c.File != "" {
		parts = append(parts, "in "+code(c.File))
	}
	return strings.Join(parts, "; ")
}

func reachText(s *Site) string {
	ways := make([]string, len(s.Reach))
	for i, r := range s.Reach {
		ways[i] = map[api.Reach]string{api.ReachLogin: "from the login node", api.ReachNode: "through the compute node", api.ReachHere: "on the login node"}[r]
	}
	text := strings.Join(ways, ", then ")
	if len(s.Dial) > 0 {
		text += ", as " + codes(s.Dial)
	}
	return text
}

func limitsText(l *SiteLimits) string {
	var parts []string
	if l.Sessions > 0 {
		parts = append(parts, fmt.Sprintf("%d command at a time", l.Sessions))
	}
	for what, p := range map[string]Period{"logins at least %s apart": l.LoginSpacing, "attempts at least %s apart": l.Retry} {
		if p > 0 {
			parts = append(parts, fmt.Sprintf(what, time.Duration(p)))
		}
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}
