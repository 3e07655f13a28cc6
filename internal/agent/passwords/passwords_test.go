package passwords

import (
	"path/filepath"
	"testing"

	"tunctl/internal/agent/state"
	"tunctl/internal/api"
)

func TestARefusedPasswordIsKeptAndNotUsed(t *testing.T) {
	const account = "alice@login:22"
	path := filepath.Join(t.TempDir(), "state.json")
	start := func() *Passwords {
		store, err := state.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		return New(store, func() api.Env { return nil })
	}
	p := start()
	keep := func(p *Passwords) {
		if err := p.Keep(t.Context(), account, "secret", api.KeepMemory); err != nil {
			t.Fatal(err)
		}
	}
	keep(p)
	p.SetRefused(account)
	p.store.List(state.SavedPasswords, account, true)
	if _, usable := p.Password(t.Context(), account); usable || p.Refused(account) != api.KeepKeyring {
		t.Errorf("usable: %v, kept in %q", usable, p.Refused(account))
	}
	p = start() // a crash does not permit another refused login
	if _, usable := p.Password(t.Context(), account); usable || p.Refused(account) != api.KeepKeyring {
		t.Errorf("after a restart: usable: %v, kept in %q", usable, p.Refused(account))
	}
	keep(p)
	if text, usable := p.Password(t.Context(), account); !usable || text != "secret" || p.Refused(account) != api.KeepNot {
		t.Errorf("after a login: %q, usable: %v", text, usable)
	}
}
