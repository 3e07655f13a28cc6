package autostart

import (
	"testing"

	"tunctl/internal/dev/must"
)

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
