package autostart

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tunctl/internal/dev/must"
)

// scheduler does to files what schtasks does.
type scheduler struct {
	t         *testing.T
	dir       string
	forbidden bool
	calls     []string
}

func (s *scheduler) task() *task { return &task{user: "S-1-5-21-1", dir: s.dir, run: s.run} }

func (s *scheduler) run(_ context.Context, name string, args ...string) ([]byte, error) {
	s.calls = append(s.calls, name+" "+strings.Join(args, " "))
	if s.forbidden {
		return nil, errors.New("ERROR: Access is denied.")
	}
	path := filepath.Join(s.dir, args[slices.Index(args, "/tn")+1])
	switch args[0] {
	case "/create":
		text, err := os.ReadFile(args[slices.Index(args, "/xml")+1])
		must.Do(s.t, err)
		must.Do(s.t, os.WriteFile(path, text, 0o600))
	case "/delete":
		must.Do(s.t, os.Remove(path))
	}
	return nil, nil
}

// edit changes the task as the window of the Task Scheduler does.
func (s *scheduler) edit(old, now string) {
	s.t.Helper()
	path := s.task().path()
	text, err := os.ReadFile(path)
	must.Do(s.t, err)
	changed := strings.Replace(string(text), string(utf16Text(old)[2:]), string(utf16Text(now)[2:]), 1)
	if changed == string(text) {
		s.t.Fatalf("the task has no %q", old)
	}
	must.Do(s.t, os.WriteFile(path, []byte(changed), 0o600))
}

func TestTask(t *testing.T) {
	s, r := &scheduler{t: t, dir: t.TempDir()}, registryInMemory{}
	must.Do(t, r.set(runKey, "tunctl-agent", "of an earlier version"))
	a := &Autostart{program: `C:\Users\Jörg Müller\tunctl.exe`, methods: windowsMethods(s.task(), r), keeper: s.task()}
	must.Do(t, a.On(t.Context()))
	if len(r) != 1 || r[runKey+`\tunctl-tray`] == nil {
		t.Errorf("the Run key has %v", r)
	}
	st := status(t, a)
	if !st.On || len(st.Entries) != 2 || st.Entries[0].Kind != "task" || st.Entries[0].Program != a.program {
		t.Errorf("after on: %+v", st)
	}
	must.Do(t, a.StartAgent(t.Context()))
	if last := s.calls[len(s.calls)-1]; last != "schtasks /run /tn tunctl-agent-S-1-5-21-1" {
		t.Errorf("started by %q", last)
	}
	second := &Autostart{program: `C:\elsewhere\tunctl.exe`, methods: a.methods, keeper: a.keeper}
	if e := status(t, second).Entries[0]; !e.Stale || second.StartAgent(t.Context()) == nil {
		t.Errorf("another copy takes the task for its own: %+v", e)
	}
	s.edit("<Enabled>true</Enabled>\n    <ExecutionTimeLimit>", "<Enabled>false</Enabled>\n    <ExecutionTimeLimit>")
	if st := status(t, a); st.On || st.Entries[0].Enabled {
		t.Errorf("switched off in the Task Scheduler: %+v", st)
	}
	must.Do(t, a.Off(t.Context()))
	if st := status(t, a); st.On || len(st.Entries) != 2 {
		t.Errorf("after off: %+v", st)
	}
	if left, _ := os.ReadDir(s.dir); len(left) != 0 || len(r) != 0 {
		t.Errorf("off left %v, %v", left, r)
	}
	must.Do(t, a.Off(t.Context()))
}

func TestTaskReadBack(t *testing.T) {
	for _, program := range append(oddPaths, `C:\Program Files\tunctl\tunctl.exe`, `C:\Users\Jörg & Ольга\100%\tunctl.exe`) {
		text := taskText("S-1-5-21-1", program)
		_, body, _ := strings.Cut(text, "?>")
		for _, form := range [][]byte{utf16Text(text), utf16Text(text)[2:], []byte(text), []byte("\ufeff<!-- by Wine -->" + body)} {
			s, err := readTask(form)
			must.Do(t, err)
			if s.Source != taskSource(program) || s.Command != program || s.Enabled != "true" || s.Restart != "PT1M" {
				t.Errorf("%q: %+v", program, s)
			}
		}
		for _, c := range taskSource(program) {
			if c > 126 {
				t.Errorf("%q has letters that schtasks does not print", taskSource(program))
			}
		}
	}
	if _, err := readTask([]byte("<?xml?>no task")); err == nil {
		t.Error("what is no XML was read")
	}
}

func TestTaskWithoutWindow(t *testing.T) {
	program := filepath.Join(t.TempDir(), "tunctl.exe")
	if got := withoutWindow(program); got != program {
		t.Errorf("alone: %q", got)
	}
	beside := filepath.Join(filepath.Dir(program), windowless)
	must.Do(t, os.WriteFile(beside, nil, 0o755))
	if s, err := readTask([]byte(taskText("x", program))); err != nil || s.Command != beside || s.Source != taskSource(program) {
		t.Errorf("%+v, %v", s, err)
	}
	r := registryInMemory{}
	v := &runValue{Tray, r, func() bool { return true }}
	must.Do(t, v.install(t.Context(), program))
	e, err := v.entry(t.Context(), program)
	if err != nil || e.Program != program || e.Stale || !strings.Contains(r[runKey+`\tunctl-tray`].(string), windowless) {
		t.Errorf("%+v, %v", e, err)
	}
}

// registryInMemory is HKEY_CURRENT_USER as a map.
type registryInMemory map[string]any

func (r registryInMemory) get(key, name string) (text string, raw []byte, err error) {
	switch v := r[key+`\`+name].(type) {
	case string:
		text = v
	case []byte:
		raw = v
	}
	return text, raw, nil
}

func (r registryInMemory) set(key, name, text string) error {
	r[key+`\`+name] = text
	return nil
}

func (r registryInMemory) unset(key, name string) error {
	delete(r, key+`\`+name)
	return nil
}

func TestRegistry(t *testing.T) {
	r := registryInMemory{}
	forbidden := &scheduler{t: t, dir: t.TempDir(), forbidden: true}
	a := &Autostart{program: `C:\Program Files\tunctl\tunctl.exe`, methods: windowsMethods(forbidden.task(), r)}
	must.Do(t, a.On(t.Context()))
	if got, want := r[runKey+`\tunctl-agent`], `"C:\Program Files\tunctl\tunctl.exe" agent run`; got != want {
		t.Errorf("the agent's command is %q, want %q", got, want)
	}
	s := status(t, a)
	if !s.On || s.Entries[2].Program != a.program {
		t.Errorf("after on: %+v", s)
	}

	r[approvedKey+`\tunctl-tray`] = []byte{3, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8}
	if s := status(t, a); s.On || s.Entries[2].Enabled {
		t.Errorf("switched off in the Task Manager: %+v", s)
	}
	r[approvedKey+`\tunctl-tray`] = []byte{2, 0, 0, 0}
	if s := status(t, a); !s.On {
		t.Errorf("switched on in the Task Manager: %+v", s)
	}
	must.Do(t, a.Off(t.Context()))
	if len(r) != 0 {
		t.Errorf("off left %v", r)
	}
}
