package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tunctl/internal/cmdline"

	"github.com/urfave/cli/v2"
)

func TestCompletionRunsNothing(t *testing.T) {
	t.Setenv("TUNCTL_HOME", t.TempDir())
	var ran []string
	for _, words := range everyCommand(t) {
		app := testApp()
		app.Action = func(*cli.Context) error { ran = append(ran, "tunctl"); return nil }
		eachOf(app.Commands, nil, func(c *cli.Command, name []string) {
			c.Action = func(*cli.Context) error { ran = append(ran, strings.Join(name, " ")); return nil }
		})
		for _, rest := range [][]string{
			{},
			{"--"},
			{"a"},
			{"a", "--"},
			{"a", "b", "--"},
			{"--", "a"},
			{"a", "--", "b", "--"},
			{"--yes", "a", "b", "--", "-x"},
			{"--help", "--"},
			{"help", "--"},
		} {
			for _, ask := range []string{cmdline.CompletionWord, cmdline.CompletionWord + "=", cmdline.CompletionWord + "=a", cmdline.CompletionWord + "=-"} {
				line := slices.Concat([]string{"tunctl"}, words, rest, []string{ask})
				if err := runApp(t.Context(), app, line); err != nil || len(ran) > 0 {
					t.Errorf("%q ran %q, %v", line, ran, err)
				}
				ran = nil
			}
		}
	}
}

// everyCommand is the words of all commands, including hidden ones and the program itself.
func everyCommand(t *testing.T) [][]string {
	t.Helper()
	list := [][]string{{}}
	eachOf(testApp().Commands, nil, func(_ *cli.Command, words []string) { list = append(list, words) })
	if len(list) < 50 {
		t.Fatalf("only %d commands", len(list))
	}
	return list
}

// A command whose help uses other words for its arguments would have no completion.
func TestCompletionArgumentKinds(t *testing.T) {
	known := []string{
		"SESSION", "HOST", "JOB", "SITE", "SRC", "DST", "FILE", "DIR", "COMMAND",
		"-", "TIME", "SPEC", "SCRIPT", "ADDR:PORT", "NODE:PORT", "ACCOUNT", "WORD", "PATH", // these have no candidates
	}
	eachOf(testApp().Commands, nil, func(c *cli.Command, words []string) {
		for i := range strings.Fields(c.ArgsUsage) {
			for _, kind := range cmdline.ArgumentKinds(c.ArgsUsage, i) {
				if !slices.Contains(known, kind) && strings.Trim(kind, "abcdefghijklmnopqrstuvwxyz") != "" {
					t.Errorf("tunctl %s takes %q", strings.Join(words, " "), kind)
				}
			}
		}
	})
}

// offersFor are the lines that a shell gets.
func offersFor(t *testing.T, current string, words ...string) []string {
	t.Helper()
	offered := shows(t, append(slices.Clone(words), cmdline.CompletionWord+"="+current)...)
	return strings.Split(strings.TrimSuffix(offered, "\n"), "\n")
}

func TestCompletion(t *testing.T) {
	dir := t.TempDir()
	writeFiles(t, dir, map[string]string{
		"config.toml": "[session.jupyter]\nhost = \"narval\"\nsubmit = \"~/x.sh\"\n",
		"other.toml":  "[session.other]\nhost = \"trillium\"\nsubmit = \"~/x.sh\"\n",
		"both.toml":   "[session.jupyter]\nhost = \"narval\"\nsubmit = \"~/x.sh\"\n[session.other]\nhost = \"trillium\"\nsubmit = \"~/x.sh\"\n",
		"sites.toml":  "[host.fir]\nsite = \"archer2\"\n[session.nb]\nhost = \"fir\"\nsubmit = \"builtin:jupyter\"\n",
		"ssh_config":  "Host narval bastion\n",
	})
	t.Setenv("TUNCTL_HOME", dir)
	t.Setenv("TUNCTL_CONFIG", "")
	t.Setenv("TUNCTL_SSH_CONFIG", filepath.Join(dir, "ssh_config"))
	other, both, sites := filepath.Join(dir, "other.toml"), filepath.Join(dir, "both.toml"), filepath.Join(dir, "sites.toml")
	for _, c := range []struct {
		words   []string
		current string
		want    []string
	}{
		{[]string{"up"}, "", []string{"jupyter\ton narval"}},
		{[]string{"up", "jupyter"}, "", []string{""}},
		{[]string{"--config", both, "down", "other"}, "", []string{"jupyter\ton narval"}},
		{[]string{"--config", both, "extend"}, "", []string{"jupyter\ton narval", "other\ton trillium"}},
		{[]string{"extend", "jupyter"}, "", []string{""}},
		{[]string{"help"}, "al", []string{"all"}},
		{[]string{"--config", other, "up"}, "", []string{"other\ton trillium"}},
		{[]string{"--config=" + other, "up"}, "", []string{"other\ton trillium"}},
		{[]string{"login"}, "", []string{"bastion\thost", "narval\thost"}},
		{[]string{"ssh"}, "nar", []string{"narval\thost"}},
		{[]string{"ssh", "narval"}, "-", []string{""}},
		{[]string{"up", "--"}, "-", []string{""}},
		{[]string{"up", "--wait"}, "", []string{""}},
		{[]string{"up", "jupyter", "--with"}, "ho", []string{"hours=\tHow many hours should the job last?"}},
		{[]string{"up", "jupyter", "--with", "hours=2", "--with"}, "q", []string{"queue=\tWhich queue?", "qos=\tWhich QoS?"}},
		{[]string{"up", "jupyter"}, "--with=mem", []string{"--with=memory=\tHow much memory?"}},
		{[]string{"up", "jupyter", "--with"}, "hours=", []string{""}},
		{[]string{"--config", sites, "up", "--with"}, "acc", []string{"account=\tWhich budget is charged, such as t01?"}},
		{[]string{"--config", sites, "up", "nb", "--with"}, "qos=sh", []string{"qos=short"}},
		{[]string{"script", "archer2", "--with"}, "acc", []string{"account=\tWhich budget is charged, such as t01?"}},
		{[]string{"up", "--as"}, "", []string{""}},
		{[]string{"doctor", "--bundle"}, "", []string{cmdline.FilesToo}},
		{[]string{"cancel", "narval"}, "", []string{""}},
		{[]string{"forward", "narval"}, "", []string{""}},
		{[]string{"cp"}, "nar", []string{"narval:\thost", cmdline.FilesToo}},
		{[]string{"cp"}, "narval:", []string{""}},
		{[]string{"xyzzy"}, "", []string{""}},
		{[]string{"config", "xyzzy"}, "", []string{""}},
	} {
		if got := offersFor(t, c.current, c.words...); !slices.Equal(got, c.want) {
			t.Errorf("after %q and %q: %q, want %q", c.words, c.current, got, c.want)
		}
	}
}

func TestCompletionFlags(t *testing.T) {
	t.Setenv("TUNCTL_HOME", t.TempDir())
	eachCommand(func(c *cli.Command, words []string) {
		offered := offersFor(t, "-", words...)
		for _, f := range cmdline.VisibleFlags(c.Flags) {
			name := "--" + f.Names()[0]
			if len(f.Names()[0]) == 1 {
				name = name[1:]
			}
			if !slices.ContainsFunc(offered, func(line string) bool { return strings.HasPrefix(line, name+"\t") }) {
				t.Errorf("tunctl %s offers %q, not %s with a description", strings.Join(words, " "), offered, name)
			}
		}
	})
}
