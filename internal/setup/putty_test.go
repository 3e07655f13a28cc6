package setup

import "testing"

func TestAPuttySessionLeadsWherePuttyWouldGo(t *testing.T) {
	for want, s := range map[string]puttySession{
		"narval.alliancecan.ca":      {protocol: "ssh", host: "narval.alliancecan.ca", port: 22},
		"ann@login.example":          {protocol: "ssh", host: "login.example", user: "ann"},
		"bob@login.example":          {protocol: "ssh", host: "bob@login.example", user: "ann", port: 22},
		"ssh://ann@gate:2222":        {protocol: "ssh", host: " gate ", user: "ann", port: 2222},
		"ssh://[2001:db8::1]:2222":   {protocol: "ssh", host: "2001:db8::1", port: 2222},
		"2001:db8::1":                {protocol: "ssh", host: "2001:db8::1", port: 22},
		"ann@realm.example@host.org": {protocol: "ssh", host: "ann@realm.example@host.org"},
	} {
		if got := s.destination(); got != want {
			t.Errorf("%+v leads to %q, want %q", s, got, want)
		}
	}
	for _, s := range []puttySession{{protocol: "ssh"}, {protocol: "serial", host: "COM1"}, {protocol: "telnet", host: "old.example"}, {host: "x"}} {
		if got := s.destination(); got != "" {
			t.Errorf("%+v leads to %q by SSH", s, got)
		}
	}
}
