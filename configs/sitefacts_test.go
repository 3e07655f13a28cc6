package configs

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// factTopics are what an entry of `unsure` may be about.
var factTopics = []string{
	"GPU types", "account", "balance", "before", "certificate", "charge", "container", "defaults", "directives", "entrance", "log", "login", "modules", "note",
	"gpus", "portal", "queues", "reach", "scheduler", "transfer",
}

var fullHostName = regexp.MustCompile(`^([a-z0-9]([a-z0-9-]*[a-z0-9])?\.)+[a-z]([a-z0-9-]*[a-z0-9])?$`)

// The lists of sites have a line of 80 columns for each.
const (
	longestSiteName  = 12
	longestSiteLabel = 55
)

func TestTheFactsOfEverySiteAreWellFormed(t *testing.T) {
	hosts, names, titles := map[string]string{}, map[string]string{}, map[string]string{}
	for _, s := range builtinSites(t) {
		names[s.Name] = s.Name
	}
	for _, s := range builtinSites(t) {
		if other := titles[s.Title]; other != "" {
			t.Errorf("%s and %s have the same title", s.Name, other)
		}
		titles[s.Title] = s.Name
		if len(s.Name) > longestSiteName || utf8.RuneCountInString(s.Label()) > longestSiteLabel {
			t.Errorf("%s: name or title are too long for the lists: %q", s.Name, s.Title)
		}
		if s.Generic() {
			continue
		}
		if s.Country == "" {
			t.Errorf("%s has no country", s.Name)
		}
		for _, e := range s.Entrances {
			if !fullHostName.MatchString(e.Host) && e.Jump == "" { // a jump host may know short names
				t.Errorf("%s: %q is not the full name of a host", s.Name, e.Host)
			}
			if e.Jump != "" && !fullHostName.MatchString(e.Jump) {
				t.Errorf("%s: %q is not the full name of a host", s.Name, e.Jump)
			}
			if other := hosts[e.Host]; other != "" {
				t.Errorf("%s is a login node of both %s and %s", e.Host, s.Name, other)
			}
			hosts[e.Host] = s.Name
			if other := names[e.Name]; other != "" && other != s.Name {
				t.Errorf("%q means both %s and %s to `tunctl init`", e.Name, s.Name, other)
			}
			names[e.Name] = s.Name
		}
		checkSiteTexts(t, &s)
	}
}

func checkSiteTexts(t *testing.T, s *Site) {
	t.Helper()
	for _, address := range append(slices.Clone(s.Help), s.Portal, s.Keys, s.HostKeysPage) {
		if u, err := url.Parse(address); address != "" && (err != nil || !strings.HasPrefix(u.Scheme, "http") || u.Host == "") {
			t.Errorf("%s: %q is not the address of a page", s.Name, address)
		}
	}
	if len(s.Unsure) == 0 {
		t.Errorf("%s: no documentation has everything, so something is not verified", s.Name)
	}
	for _, u := range s.Unsure {
		topic, text, _ := strings.Cut(u, ": ")
		if !slices.Contains(factTopics, topic) || text == "" || strings.HasSuffix(text, ".") {
			t.Errorf("%s: %q is not a topic and a text, or the topic is not known", s.Name, u)
		}
	}
	for _, n := range append(slices.Clone(s.Notes), s.Before) {
		if n != "" && !strings.HasSuffix(n, ".") {
			t.Errorf("%s: %q is not a sentence", s.Name, n)
		}
	}
	if strings.HasSuffix(s.Login, ".") {
		t.Errorf("%s: %q is shown as part of a sentence", s.Name, s.Login)
	}
	if c := s.Certificate; c != (Certificate{}) && c.Lifetime == 0 && !slices.ContainsFunc(s.Unsure, func(u string) bool { return strings.HasPrefix(u, "certificate: ") }) {
		t.Errorf("%s: how long a certificate is valid is neither known nor called unknown", s.Name)
	}
}

func TestEveryQuestionOfASiteHasAnEffect(t *testing.T) {
	for _, s := range builtinSites(t) {
		shell := strings.Join([]string{s.Job.Setup, s.Job.Environment, s.Job.Private}, "\n")
		templates := strings.Join(append(slices.Clone(s.Job.Directives), s.Workdir), "\n")
		for _, q := range s.Questions {
			everywhere := slices.ContainsFunc(softwareQuestions(), func(x Question) bool { return x.Name == q.Name })
			used := regexp.MustCompile(`\$\{?`+q.Name+`\b`).MatchString(shell) || regexp.MustCompile(`\{\{[^}]*\.`+q.Name+`\b`).MatchString(templates)
			if !used && !everywhere {
				t.Errorf("%s asks for %s and does nothing with it", s.Name, q.Name)
			}
		}
	}
}

func TestEveryJobHasTheOptionsThatItsSiteRequires(t *testing.T) {
	for _, s := range builtinSites(t) {
		text, err := answered(s, "jupyter").Script()
		if err != nil {
			t.Fatal(err)
		}
		for _, option := range s.Require {
			name, _, long := strings.Cut(option, "=")
			if !long {
				name, _, _ = strings.Cut(option, " ")
			}
			if !strings.Contains(string(text), " "+name) {
				t.Errorf("%s requires %s, which its own job lacks", s.Name, option)
			}
		}
	}
}
