package tunnel

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"tunctl/internal/api"
	"tunctl/tunnel/failure"
	"tunctl/tunnel/openssh"
	"tunctl/tunnel/sshconfig"
	"tunctl/tunnel/userkeys"
)

// usesSSHProgram decides whether the ssh program logs in: because the config says so, or
// because the settings, the key files or an earlier login show that a native login
// cannot work. It tries no login to find out: that would be one more failed login.
func (t *attempt) usesSSHProgram(ctx context.Context) bool {
	if t.settings.Transport != "" {
		return t.settings.Transport == api.TransportOpenSSH
	}
	why := t.host.sshOnlyWhy
	if why == "" && t.settings.PKCS11Provider != "" {
		why = "PKCS11Provider is set"
	}
	if why == "" {
		why = t.securityKey(ctx)
	}
	if why == "" {
		return false
	}
	if hint, err := findSSH(t.pool.o.Envs()[0]); err != nil {
		t.ask.Warn(why + ", which needs the ssh program: " + hint + ", or load the key into an ssh-agent")
		return false
	}
	t.log.Info("the ssh program logs in", "why", why)
	t.whySSH = why
	return true
}

// findSSH looks for an ssh program whose connection can be shared, and returns what to
// do if there is none.
func findSSH(env api.Env) (hint string, err error) {
	if !openssh.SharesConnections {
		return "run tunctl in WSL: the ssh program of Windows does not share its connections", errors.ErrUnsupported
	}
	_, err = sshconfig.FindSSH(env)
	return "install OpenSSH's client", err
}

// securityKey describes a key on a FIDO token that no ssh-agent holds; "": there is none.
func (t *attempt) securityKey(ctx context.Context) string {
	path := userkeys.OnToken(ctx, t.keyOptions())
	if path == "" {
		return ""
	}
	return fmt.Sprintf("the key %s is on a security token and not in an ssh-agent", path)
}

// sshOnlyMethod says which of the server's methods only the ssh program supports; "":
// none.
func sshOnlyMethod(s *sshconfig.Settings, allowed []string) string {
	switch {
	case slices.Contains(allowed, "gssapi-with-mic") || slices.Contains(allowed, "gssapi-keyex"):
		return "the server accepts Kerberos logins, which only the ssh program supports"
	case s.HostbasedAuthentication && slices.Contains(allowed, "hostbased"):
		return "the server accepts host-based logins, which only the ssh program supports"
	}
	return ""
}

// handOverToSSH is called when no native method is left and none has failed. It reports
// whether the ssh program will log in; an error says why it cannot.
func (t *attempt) handOverToSSH(allowed []string) (bool, error) {
	why := sshOnlyMethod(&t.settings, allowed)
	if why == "" {
		return false, nil
	}
	if t.settings.Transport == api.TransportNative {
		return false, t.ask.deny(why+"; remove transport = \"native\" for this host", nil)
	}
	if hint, err := findSSH(t.pool.o.Envs()[0]); err != nil {
		t.ask.denied = failure.Permanent.Errorf(api.CodeConfig, err, "%s needs the ssh program: %s", t.host.label(), why).
			WithHint("%s", hint)
		return false, t.ask.denied
	}
	t.whySSH = why
	t.host.sshOnlyWhy = why
	return true, nil
}
