package tunnel

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/dev/sshtest"
	"tunctl/tunnel/openssh"
	"tunctl/tunnel/sshconfig"
)

func TestKeepalive(t *testing.T) {
	t.Run("tells the end of a certificate half an hour before", simulated(func(t *testing.T) {
		path, public := sshtest.NewKeyFile(t)
		ca := sshtest.NewSigner(t)
		sshtest.WriteCertificate(t, path+"-cert.pub", ca, public, 2*time.Hour)
		s := sshtest.NewServer(t, sshtest.AcceptCertificates(ca.PublicKey()))
		_, h, err := logIn(t, s, func(s *sshconfig.Settings) { s.User, s.IdentityFiles = "alice", []string{path} })
		if err != nil {
			t.Fatal(err)
		}
		if left := time.Until(h.Status().CertificateEnds); left < time.Hour || left > 2*time.Hour {
			t.Errorf("at the login, its end is %v away", left)
		}
		time.Sleep(89 * time.Minute)
		if w := h.Status().Warnings; len(w) > 0 {
			t.Errorf("warned an hour early: %q", w)
		}
		changed := h.Changed()
		time.Sleep(2 * time.Minute)
		now := h.Status()
		if w := now.Warnings; len(w) != 1 || !strings.Contains(w[0], "expires at") {
			t.Errorf("warnings %q", w)
		}
		if left := time.Until(now.CertificateEnds); left <= 0 || left > CertificateWarning {
			t.Errorf("it ends in %v", left)
		}
		select {
		case <-changed:
		default:
			t.Error("nobody was told")
		}
	}))
	t.Run("measures no round trip of an outage", simulated(func(t *testing.T) {
		_, s, h := byPassword(t) // whose connection is kept
		time.Sleep(10 * time.Minute)
		s.Pause(true)
		time.Sleep(10 * time.Minute)
		s.Pause(false)
		awaitHost(t, h, 2*time.Minute, func() bool { st := h.Status(); return st.State == api.HostUp && st.NotRespondingSince.IsZero() })
		time.Sleep(time.Minute)
		if rtt := h.Status().RTTMs; rtt >= 1000 {
			t.Errorf("a round trip of %.1f ms", rtt)
		}
		s.WantLogins(t, 1)
	}))
	t.Run("late bytes do not hide a dead link of an ssh program", func(t *testing.T) {
		local, remote := net.Pipe()
		defer func() { _ = local.Close() }()
		defer func() { _ = remote.Close() }()
		w := newWire(local)
		w.greeted.Store(true) // the greeting has come
		p := newKeepalive(nil, &conn{wire: w, master: &openssh.Master{}, limits: Limits{KeepaliveEvery: time.Hour}})
		defer p.timer.Stop()
		defer p.stall.timer.Stop()
		p.waiting = true // for an answer that never comes
		p.probe(time.Hour, false)

		go func() { _, _ = io.WriteString(remote, "late") }()
		if _, err := io.ReadFull(w, make([]byte, 4)); err != nil {
			t.Fatal(err)
		}
		if err := p.tick(time.Now()); err != nil {
			t.Errorf("with bytes heard: %v", err)
		}
		if err := p.tick(time.Now()); err == nil {
			t.Error("the probe ended without an answer")
		}
	})
}
