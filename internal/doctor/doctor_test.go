package doctor

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"tunctl/internal/api"
)

// healthy is a world in which all is well, with a host that is not connected.
func healthy(t *testing.T) Environment {
	t.Helper()
	dir := t.TempDir()
	program := filepath.Join(dir, "bin", "tunctl")
	write(t, program, "#!/bin/sh\n", 0o755)
	t.Setenv("PATH", filepath.Dir(program))
	key := filepath.Join(dir, "id_ed25519")
	write(t, key, "key", 0o600)
	return Environment{
		Program: program, Version: "1.0",
		Config: func() (string, error) { return "config.toml: one session", nil },
		State:  filepath.Join(dir, "state"), StateProblem: func() (string, error) { return "", nil },
		Status: func(context.Context) (api.Status, error) {
			return api.Status{Agent: &api.Agent{Version: "1.0", Since: time.Now()}}, nil
		},
		Resolve: func(_ context.Context, host string) (api.Host, error) {
			return api.Host{Alias: host, Hostname: host + ".example.org", Port: 22, User: "alice", Source: "ssh -G", IdentityFiles: []string{key}}, nil
		},
		Preflight: func(context.Context, string) (PreflightResult, error) {
			return PreflightResult{"192.0.2.7:22", "SSH-2.0-OpenSSH_9.2", "SHA256:abc"}, nil
		},
		Lookup: func(context.Context, string) ([]string, error) { return []string{"192.0.2.7"}, nil },
		Advice: func(context.Context, string) string { return "" },
		Remote: func(context.Context, api.CheckRequest) ([]api.Check, error) { return nil, nil },
	}
}

func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil { // whatever the umask is
		t.Fatal(err)
	}
}

// examine runs the checks and returns those that are not well.
func examine(t *testing.T, w Environment) (problems []api.Check, all string) {
	t.Helper()
	Examine(t.Context(), w, func(api.Status) []Subject { return []Subject{{Host: "narval", Session: "jupyter"}} }, func(c api.Check) {
		all += string(c.Result) + " " + c.Name + ": " + c.Text + "\n"
		if c.Result != api.CheckOK {
			problems = append(problems, c)
		}
	})
	return problems, all
}

func TestExamineHealthy(t *testing.T) {
	problems, all := examine(t, healthy(t))
	for _, c := range problems {
		if c.Result == api.CheckBad {
			t.Errorf("%s: %s", c.Name, c.Text)
		}
	}
	for _, name := range []string{"program", "config", "state", "agent", "ssh config", "key", "name", "port", "greeting", "host key"} {
		if !strings.Contains(all, "ok "+name+": ") {
			t.Errorf("no ✓ for %s in:\n%s", name, all)
		}
	}
}

// TestExamine has each thing that doctor knows wrong once.
// TestExamineOwnKey has a host whose only key is one that tunctl has made.
func TestExamineOwnKey(t *testing.T) {
	w := healthy(t)
	path := filepath.Join(t.TempDir(), "key")
	write(t, path, "x", 0o600)
	host(func(h *api.Host) { h.IdentityFiles, h.OwnKey = nil, path })(t, &w)
	if _, all := examine(t, w); !strings.Contains(all, "ok key: "+path+"\n") {
		t.Errorf("it is not shown:\n%s", all)
	}
}

func TestExamine(t *testing.T) {
	unreachable := func(message string) error { return &api.Error{Code: api.CodeUnreachable, Message: message} }
	tests := map[string]struct {
		damage func(t *testing.T, w *Environment)
		check  string
		result api.CheckResult
		text   string
		fix    string
	}{
		"another tunctl is first": {func(t *testing.T, _ *Environment) {
			other := filepath.Join(t.TempDir(), "tunctl")
			write(t, other, "#!/bin/sh\n", 0o755)
			t.Setenv("PATH", filepath.Dir(other)+string(filepath.ListSeparator)+os.Getenv("PATH"))
		}, "program", api.CheckBad, "another program called tunctl comes first", "before"},
		"not on the PATH": {
			func(t *testing.T, _ *Environment) { t.Setenv("PATH", t.TempDir()) },
			"program", api.CheckUnknown, "is not on the PATH", "add ",
		},
		"the program is gone": {
			func(_ *testing.T, w *Environment) { w.Program += "x" },
			"program", api.CheckBad, "cannot read", "install",
		},
		"the state file was damaged": {
			func(_ *testing.T, w *Environment) {
				w.StateProblem = func() (string, error) { return "state.json.unread", errors.New("state file is damaged") }
			},
			"state", api.CheckBad, "state file is damaged; the agent uses its last good copy", "remove state.json.unread",
		},
		"the config has errors": {
			func(_ *testing.T, w *Environment) {
				w.Config = func() (string, error) { return "", errors.New("config.toml:3:1: no key \"locall\"") }
			},
			"config", api.CheckBad, "config.toml:3:1", "tunctl config edit",
		},
		"the state folder is a file": {func(t *testing.T, w *Environment) {
			write(t, w.State, "", 0o600)
		}, "state", api.CheckBad, "cannot create", "make the folder writable, or free disk space; TUNCTL_HOME"},
		"the agent is stuck": {
			func(_ *testing.T, w *Environment) {
				w.Status = func(context.Context) (api.Status, error) {
					return api.Status{}, errors.New("the agent does not answer")
				}
			},
			"agent", api.CheckBad, "does not answer", "tunctl agent restart",
		},
		"the agent is older": {func(_ *testing.T, w *Environment) {
			w.Version = "2.0"
		}, "agent", api.CheckBad, "version 1.0, this program is 2.0", "tunctl agent restart"},
		"the agent has an older config": {
			status(func(st *api.Status) { st.Config = &api.Problem{Message: "no key"} }),
			"agent", api.CheckBad, "last valid config", "tunctl config edit",
		},
		"the agent crashed again and again": {
			status(func(st *api.Status) { st.Agent.Paused = &api.Problem{Message: "the agent crashed 3 times"} }),
			"agent", api.CheckBad, "crashed 3 times", "tunctl up",
		},
		"the ssh config cannot be read": {
			func(_ *testing.T, w *Environment) {
				w.Resolve = func(context.Context, string) (api.Host, error) {
					return api.Host{}, &api.Error{Code: api.CodeConfig, Message: "cannot read the ssh settings", Hint: "try `ssh -G narval`"}
				}
			},
			"ssh config", api.CheckBad, "cannot read", "ssh -G narval",
		},
		"the ssh config asks for what we cannot": {host(func(h *api.Host) { h.Warnings = []string{"PKCS#11 needs openssh"} }), "ssh config", api.CheckUnknown, "PKCS#11", "tunctl hosts narval"},
		"no key anywhere":                        {host(func(h *api.Host) { h.IdentityFiles = nil }), "key", api.CheckUnknown, "no key file", "ssh-keygen"},
		"a key that others can read": {func(t *testing.T, w *Environment) {
			path := filepath.Join(t.TempDir(), "key")
			write(t, path, "x", 0o644)
			host(func(h *api.Host) { h.IdentityFiles = []string{path} })(t, w)
		}, "key", api.CheckBad, "readable by others", "chmod 600"},
		"the certificate has expired": {
			host(func(h *api.Host) { h.CertificateEnds = time.Now().Add(-time.Hour) }),
			"certificate", api.CheckUnknown, "expired at", "before_login in [host.narval]",
		},
		"the certificate expires": {
			agentHas(api.Host{State: api.HostUp, CertificateEnds: time.Now().Add(10 * time.Minute)}),
			"certificate", api.CheckUnknown, "a lost connection cannot be restored", "before_login in [host.narval]",
		},
		"the ssh agent is gone": {func(t *testing.T, w *Environment) {
			w.AgentSocket = filepath.Join(t.TempDir(), "gone")
		}, "key", api.CheckBad, "ssh agent does not respond", "ssh-add -l"},
		"no such name": {func(_ *testing.T, w *Environment) {
			w.Lookup = func(context.Context, string) ([]string, error) {
				return nil, &net.DNSError{Err: "no such host", Name: "narval", Server: "10.0.0.1", IsNotFound: true}
			}
		}, "name", api.CheckBad, "cannot resolve the name", "VPN"},
		"a short name that DNS does not have": {func(t *testing.T, w *Environment) {
			w.Names = []string{"narval", "narwal"}
			host(func(h *api.Host) { h.Hostname = "narval" })(t, w)
			w.Lookup = func(context.Context, string) ([]string, error) {
				return nil, &net.DNSError{Err: "no such host", Name: "narval", IsNotFound: true}
			}
		}, "name", api.CheckBad, "cannot resolve the name", "did you mean narwal? narval may be misspelled, or an alias that is missing in your ssh config; check the network"},
		"the site wants a VPN": {func(_ *testing.T, w *Environment) {
			w.Advice = func(context.Context, string) string { return "Connect to the campus VPN first." }
			w.Preflight = look(PreflightResult{}, &api.Error{Code: api.CodeUnreachable, Message: "192.0.2.7:22 does not answer within 10s", Hint: "is the network up?"})
		}, "port", api.CheckBad, "does not answer", "campus VPN"},
		"the port is closed": {func(_ *testing.T, w *Environment) {
			w.Preflight = look(PreflightResult{}, unreachable("192.0.2.7:22 refuses connections"))
		}, "port", api.CheckBad, "refuses connections", "network"},
		"a captive portal": {func(_ *testing.T, w *Environment) {
			w.Preflight = look(PreflightResult{Address: "192.0.2.7:22"}, unreachable("answers, but not as an SSH server"))
		}, "greeting", api.CheckBad, "not as an SSH server", "portal"},
		"the host key has changed": {func(_ *testing.T, w *Environment) {
			w.Preflight = look(PreflightResult{"a", "b", "c"}, &api.Error{Code: api.CodeHostKey, Message: "the host key has changed", Hint: "ssh-keygen -R"})
		}, "host key", api.CheckBad, "has changed", "ssh-keygen -R"},
		"the host key is not known": {func(_ *testing.T, w *Environment) {
			w.Preflight = look(PreflightResult{"a", "b", "c"}, &api.Error{Code: api.CodeNeedsPerson, Message: "the host key is unknown", Hint: "run `tunctl login narval`"})
		}, "host key", api.CheckUnknown, "unknown", "tunctl login narval"},
		"through a command":    {host(func(h *api.Host) { h.ProxyCommand = "nc %h %p" }), "port", api.CheckUnknown, "through a ProxyCommand", "tunctl login narval"},
		"through another host": {host(func(h *api.Host) { h.ProxyJump = jumpFor(h, "gate") }), "port", api.CheckUnknown, "behind the jump host", "tunctl login narval"},
		"the agent has no ssh program": {
			agentHas(api.Host{State: api.HostUp, Warnings: []string{"config:3: \"Match exec vpn\" is skipped"}}),
			"ssh config", api.CheckUnknown, "in the agent: config:3: \"Match exec vpn\" is skipped", "tunctl hosts narval",
		},
		"the config changed": {
			agentHas(api.Host{State: api.HostUp, Outdated: "the settings of narval changed"}),
			"ssh config", api.CheckUnknown, "settings of narval changed", "tunctl hosts narval",
		},
		"a ban is suspected": {
			agentHas(api.Host{State: api.HostBlocked, Cause: "may have banned this address", Hint: "wait"}),
			"connection", api.CheckBad, "banned", "wait",
		},
		"a login is needed": {
			agentHas(api.Host{State: api.HostNeedsLogin, Cause: "narval needs you", Hint: "run `tunctl login narval`"}),
			"connection", api.CheckUnknown, "needs you", "tunctl login narval",
		},
		"the session failed": {
			status(func(st *api.Status) {
				st.Sessions = []api.Session{{Name: "jupyter", Host: "narval", State: api.SessionFailed, Cause: "the scheduler did not accept the job", Hint: "change --time"}}
			}),
			"session", api.CheckBad, "the session has failed: the scheduler did not accept the job", "change --time",
		},
		"a forward reaches nothing": {
			status(func(st *api.Status) {
				st.Sessions = []api.Session{{Name: "jupyter", Host: "narval", State: api.SessionReady, Forwards: []api.Forward{{Listen: "127.0.0.1:5432", Error: "connection refused"}}}}
			}),
			"forward", api.CheckBad, "127.0.0.1:5432: connection refused", "correct the forward",
		},
		"the agent finds something": {func(t *testing.T, w *Environment) {
			agentHas(api.Host{State: api.HostUp})(t, w)
			w.Preflight = func(context.Context, string) (PreflightResult, error) {
				t.Error("a connected host is dialled again")
				return PreflightResult{}, nil
			}
			w.Remote = func(_ context.Context, req api.CheckRequest) ([]api.Check, error) {
				if req.Session != "" {
					return nil, nil
				}
				return []api.Check{{Name: "disk", Result: api.CheckBad, Text: "Disk quota exceeded", Fix: "tunctl quota narval"}}, nil
			}
		}, "disk", api.CheckBad, "quota exceeded", "tunctl quota"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if runtime.GOOS == "windows" && strings.Contains(name, "others can read") {
				t.Skip("no such modes on Windows")
			}
			w := healthy(t)
			tt.damage(t, &w)
			problems, all := examine(t, w)
			for _, c := range problems {
				if c.Name == tt.check && c.Result == tt.result && strings.Contains(c.Text, tt.text) && strings.Contains(c.Fix, tt.fix) {
					return
				}
			}
			t.Errorf("no %s %s with %q and %q in:\n%s%+v", tt.result, tt.check, tt.text, tt.fix, all, problems)
		})
	}
}

func status(change func(*api.Status)) func(*testing.T, *Environment) {
	return func(_ *testing.T, w *Environment) {
		st := api.Status{Agent: &api.Agent{Version: "1.0"}}
		change(&st)
		w.Status = func(context.Context) (api.Status, error) { return st, nil }
	}
}

// agentHas is an agent that has the host narval.
func agentHas(h api.Host) func(*testing.T, *Environment) {
	h.Alias = "narval"
	return status(func(st *api.Status) { st.Hosts = []api.Host{h} })
}

func host(change func(*api.Host)) func(*testing.T, *Environment) {
	return func(_ *testing.T, w *Environment) {
		resolve := w.Resolve
		w.Resolve = func(ctx context.Context, name string) (api.Host, error) {
			h, err := resolve(ctx, name)
			change(&h)
			return h, err
		}
	}
}

// jumpFor lets every host but the gate itself go through it.
func jumpFor(h *api.Host, gate string) string {
	if h.Alias == gate {
		return ""
	}
	return gate
}

func look(s PreflightResult, err error) func(context.Context, string) (PreflightResult, error) {
	return func(context.Context, string) (PreflightResult, error) { return s, err }
}

func TestExamineConnectedHost(t *testing.T) {
	w := healthy(t)
	host(func(h *api.Host) { h.IdentityFiles = nil })(t, &w)
	agentHas(api.Host{State: api.HostUp, Auth: "publickey"})(t, &w)
	if _, all := examine(t, w); !strings.Contains(all, "ok key: ") || strings.Contains(all, "only a password") {
		t.Errorf("the checks contradict the login there is:\n%s", all)
	}
}

func TestABundleHasNoSecretAndNoName(t *testing.T) {
	s := NewScrubber(map[string]string{"alice": "user", "/home/alice": "~", "bob": "user", "": "x", "alices-laptop": "this-machine"})
	secrets := []string{"alice", "Alice", "bob", "laptop", "def-prof", "hunter2", "0123456789abcdef0123456789abcdef", "s3cr3t", "AAAAC3NzaC1lZDI1NTE5", "b3BlbnNzaC1rZXk"}
	text := `[host.narval]
ssh = "Alice@narval.alliancecan.ca"
before_login = "vault login s3cr3t"
args = ["--account=def-prof", "-A", "def-prof2"]
http://localhost:8888/lab?token=0123456789abcdef0123456789abcdef
Authorization: hunter2
password = "hunter2"
/home/alice/.ssh/config on alices-laptop; job of bob
plain 0123456789abcdef0123456789abcdef word
ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ0000000000000000000000000000 alice@x
-----BEGIN OPENSSH PRIVATE KEY-----
b3BlbnNzaC1rZXkAAAA
-----END OPENSSH PRIVATE KEY-----
`
	var out bytes.Buffer
	items := []Item{{"config.toml", text}, {"agent.log", strings.Repeat("x", maxItem-20) + text}}
	packed, err := WriteBundle(&out, items, s, time.Now())
	if err != nil || len(packed) != 2 {
		t.Fatalf("%d items, %v", len(packed), err)
	}
	z, err := zip.NewReader(bytes.NewReader(out.Bytes()), int64(out.Len()))
	if err != nil {
		t.Fatal(err)
	}
	for i, f := range z.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil || string(data) != packed[i].Text {
			t.Errorf("%s is not what is listed (%v)", f.Name, err)
		}
		for _, secret := range secrets {
			if strings.Contains(string(data), secret) {
				t.Errorf("%s has %q:\n%s", f.Name, secret, strings.TrimLeft(string(data), "x"))
			}
		}
	}
	for _, kept := range []string{"user@narval.alliancecan.ca", "~/.ssh/config", "this-machine"} {
		if !strings.Contains(packed[0].Text, kept) {
			t.Errorf("%q is gone from:\n%s", kept, packed[0].Text)
		}
	}
}

func TestABundleHasNoAccountInAnyForm(t *testing.T) {
	s := NewScrubber(nil)
	for _, text := range []string{
		`args = ["--account=def-prof"]`, `args = ["--account", "def-prof"]`, `args = ["-A", "def-prof", "-N1"]`, `args = ["-Adef-prof"]`, `["-P", 'def-prof']`,
		"sbatch --account def-prof job.sh", "sbatch '--account=def-prof' job.sh", `sbatch --account="def-prof"`, "qsub -P def-prof", "qsub -W group_list=def-prof",
		"#SBATCH --account=def-prof\n", "#SBATCH -A def-prof", "#PBS -A def-prof", "#PBS -P\tdef-prof", "#$ -P def-prof",
		`{"script": "#!/bin/sh\n#SBATCH -A def-prof\n#PBS -P def-prof\nrun"}`, `{"args": "[\"-A\", \"def-prof\"]"}`,
		`with = { account = "def-prof", gpus = 1 }`, "[session.a.with]\nproject = 'def-prof'", `"with": {"account": "def-prof"}`, `msg="\"account\": \"def-prof\""`,
		"tunctl up jupyter --with account=def-prof --with gpus=1", "account=def-prof, gpus=2",
		"JobId=7 Account=def-prof QOS=normal", "    Account_Name = def-prof", "    project = def-prof", "/project (group def-prof)  361/1000", "/home (user def-prof)",
	} {
		if got := s.Scrub(text); strings.Contains(got, "def-prof") || !strings.Contains(got, "•••") {
			t.Errorf("%s: %s", text, got)
		}
	}
	for _, text := range []string{"Which account is charged?", `question.project = { ask = "Which?" }`, "--nodes=2 -N 2 --partition=gpu", `"accounts": [`} {
		if got := s.Scrub(text); got != text {
			t.Errorf("%s: %s", text, got)
		}
	}
}

func TestABundleHasNoLinesOfAJobsLog(t *testing.T) {
	cause := "job 7 failed at 14:05" + api.LogEndsWith + "patient \"Ann\" of C:\\Ann\nsrun: error"
	text, err := json.MarshalIndent([]api.Session{{Name: "a", Cause: cause, Hint: "keep this"}}, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	got := NewScrubber(nil).Scrub(string(text) + fmt.Sprintf("level=INFO cause=%q next=kept\n", cause))
	if strings.Contains(got, "Ann") || strings.Contains(got, "srun") || strings.Count(got, "its log ends with: •••\"") != 2 || !strings.Contains(got, "keep this") || !strings.Contains(got, "next=kept") {
		t.Errorf("got %s", got)
	}
}

func TestScrubberShortName(t *testing.T) {
	s := NewScrubber(map[string]string{"al": "user"})
	if got := s.Scrub("al finally called al's alias"); got != "user finally called user's alias" {
		t.Errorf("got %q", got)
	}
}
