package real

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"golang.org/x/crypto/ssh"

	"tunctl/internal/dev/sshtest"
)

// sshd is one of the cluster's SSH servers: a flavour of login.
type sshd struct {
	alias    string // its name in the client's ssh_config
	node     string
	listen   []string // networks of the node
	port     int
	service  string // its PAM service: sshd takes it from PAMServiceName, before OpenSSH 9.8 from argv[0]
	settings string // of sshd_config
	client   string // of ssh_config, beyond address and port
}

var sshds = []sshd{
	{
		alias: "lab-login", node: "login1", listen: []string{"wan", "lan"}, port: 22, service: "sshd",
		settings: "AuthenticationMethods publickey",
	},
	{
		alias: "lab-pass", node: "login1", listen: []string{"wan"}, port: 2201, service: "sshd",
		settings: "PubkeyAuthentication no\nKbdInteractiveAuthentication no\nPasswordAuthentication yes",
		client:   "PreferredAuthentications password",
	},
	{
		alias: "lab-otp", node: "login1", listen: []string{"wan"}, port: 2202, service: "sshd-otp",
		settings: "PasswordAuthentication no\nKbdInteractiveAuthentication yes\n" +
			"AuthenticationMethods publickey,keyboard-interactive",
	},
	{
		alias: "lab-cert", node: "login1", listen: []string{"wan"}, port: 2203, service: "sshd",
		settings: "HostCertificate /etc/ssh/lab_ed25519-cert.pub\nTrustedUserCAKeys /etc/ssh/lab_user_ca.pub\n" +
			"AuthorizedKeysFile none\nAuthenticationMethods publickey",
		client: "IdentityFile {{.Key \"id_cert\"}}",
	},
	{
		alias: "lab-pwotp", node: "login1", listen: []string{"wan"}, port: 2204, service: "sshd-pwotp",
		settings: "PasswordAuthentication no\nKbdInteractiveAuthentication yes\n" +
			"AuthenticationMethods keyboard-interactive",
		client: "PreferredAuthentications keyboard-interactive",
	},
	{
		alias: "lab-tight", node: "login1", listen: []string{"wan"}, port: 2205, service: "sshd",
		settings: "AuthenticationMethods publickey\nMaxSessions 2\nMaxAuthTries 2\nLoginGraceTime 10\n" +
			"ClientAliveInterval 5\nClientAliveCountMax 2\nAllowTcpForwarding no\nBanner /etc/ssh/lab_banner",
	},
	{
		alias: "lab-single", node: "login1", listen: []string{"wan"}, port: 2206, service: "sshd",
		settings: "AuthenticationMethods publickey\nMaxSessions 1",
	},
	{
		alias: "lab-jump", node: "jump", listen: []string{"wan"}, port: 22, service: "sshd",
		settings: "AuthenticationMethods publickey\nPermitTTY no\nForceCommand /usr/sbin/nologin\n" +
			"AllowTcpForwarding local\nPermitOpen {{.On \"login1\" \"dmz\"}}:22",
	},
	{
		alias: "lab-inner", node: "login1", listen: []string{"dmz"}, port: 22, service: "sshd",
		settings: "AuthenticationMethods publickey",
		client:   "ProxyJump lab-jump",
	},
	{
		alias: "cn01", node: "cn01", listen: []string{"lan"}, port: 22, service: "sshd-compute",
		settings: "AuthenticationMethods publickey", client: "ProxyJump lab-login",
	},
	{
		alias: "cn02", node: "cn02", listen: []string{"lan"}, port: 22, service: "sshd-compute",
		settings: "AuthenticationMethods publickey", client: "ProxyJump lab-login",
	},
}

func sshdByAlias(alias string) (sshd, error) {
	var known []string
	for _, s := range sshds {
		if s.alias == alias {
			return s, nil
		}
		known = append(known, s.alias)
	}
	return sshd{}, fmt.Errorf("no sshd %q: %s", alias, strings.Join(known, ", "))
}

// configFile is where the server's settings are inside its node.
func (s sshd) configFile() string { return "/etc/ssh/" + s.alias + ".conf" }

func (s sshd) pidFile() string { return "/run/sshd/" + s.alias + ".pid" }

// pamServices are the PAM files of the servers, by service. A wrong password is
// told at once, as tests have no time.
var pamServices = map[string]string{
	"sshd":         "auth required pam_unix.so nodelay\n",
	"sshd-otp":     "auth required " + pamCode,
	"sshd-pwotp":   "auth required pam_unix.so nodelay\nauth required " + pamCode,
	"sshd-compute": "auth required pam_unix.so nodelay\naccount required " + pamSlurm + "\n",
}

const pamAll = "account required pam_unix.so\nsession required pam_limits.so\nsession required pam_unix.so\n"

// Slurm's modules are not where PAM looks by itself in Debian 12.
var pamSlurm, pamAdopt = pamModule("pam_slurm.so"), pamModule("pam_slurm_adopt.so")

// pamModule finds a module of PAM: since Debian 13 Slurm's are in the folder of the architecture,
// as all others.
func pamModule(name string) string {
	if found, _ := filepath.Glob("/usr/lib/*/security/" + name); len(found) > 0 {
		return found[0]
	}
	return "/usr/lib/security/" + name
}

var pamCode = fmt.Sprintf("pam_oath.so usersfile=/etc/security/users.oath window=%d digits=6\n", codeWindow)

// serverConfig is the server's sshd_config.
func (s sshd) serverConfig(p plan) (string, error) {
	var b strings.Builder
	for _, segment := range s.listen {
		fmt.Fprintf(&b, "ListenAddress {{.On %q %q}}:%d\n", s.node, segment, s.port)
	}
	for _, kind := range hostKeyTypes(s.node) {
		fmt.Fprintf(&b, "HostKey /etc/ssh/lab_%s\n", kind)
	}
	fmt.Fprintf(&b, "PidFile %s\n%s\n", s.pidFile(), s.settings)
	b.WriteString("UsePAM yes\nPermitRootLogin no\nPrintMotd no\nPrintLastLog no\nX11Forwarding no\n" +
		"AcceptEnv LANG LC_*\nLogLevel VERBOSE\nSubsystem sftp internal-sftp\nMaxStartups 100:30:200\n")
	if sshtest.SSHD98OrNewer() {
		fmt.Fprintf(&b, "PAMServiceName %s\nPerSourcePenalties no\n", s.service)
	}
	return render(b.String(), p)
}

// clientConfig is the ssh_config that leads to every server.
func (k keyring) clientConfig(p plan) (string, error) {
	var b strings.Builder
	for _, s := range sshds {
		fmt.Fprintf(&b, "Host %s\n  HostName {{.On %q %q}}\n  Port %d\n", s.alias, s.node, s.listen[0], s.port)
		if s.client != "" {
			fmt.Fprintf(&b, "  %s\n", s.client)
		}
	}
	b.WriteString(`Host lab-* cn01 cn02
  User hpcuser
  IdentityFile {{.Key "id_hpcuser"}}
  IdentitiesOnly yes
  UserKnownHostsFile {{.Key "known_hosts"}}
  GlobalKnownHostsFile /dev/null
  StrictHostKeyChecking yes
  ConnectTimeout 10
`)
	return render(b.String(), struct {
		plan
		keyring
	}{p, k})
}

// Key is the path of a key, for templates.
func (k keyring) Key(name string) string { return k.path(name) }

// knownHosts lists every server's keys, and the authority of the one that has a
// certificate.
func (k keyring) knownHosts(p plan) (string, error) {
	var b strings.Builder
	for _, s := range sshds {
		addr, err := p.On(s.node, s.listen[0])
		if err != nil {
			return "", err
		}
		host := addr.String()
		if s.port != 22 {
			host = fmt.Sprintf("[%s]:%d", host, s.port)
		}
		if s.alias == "lab-cert" {
			if err := k.knownHost(&b, "@cert-authority "+host, "host_ca"); err != nil {
				return "", err
			}
			continue
		}
		for _, kind := range hostKeyTypes(s.node) {
			if err := k.knownHost(&b, host, hostKeyName(s.node, kind)); err != nil {
				return "", err
			}
		}
	}
	return b.String(), nil
}

func (k keyring) knownHost(b *strings.Builder, host, key string) error {
	public, err := k.public(key)
	if err != nil {
		return err
	}
	fmt.Fprintf(b, "%s %s", host, ssh.MarshalAuthorizedKey(public))
	return nil
}

// writeClient writes what the laptop's ssh needs.
func (k keyring) writeClient(p plan, configFile string) error {
	hosts, err := k.knownHosts(p)
	if err != nil {
		return err
	}
	config, err := k.clientConfig(p)
	if err != nil {
		return err
	}
	return cmp.Or(
		os.WriteFile(k.path("known_hosts"), []byte(hosts), 0o644),
		os.WriteFile(configFile, []byte(config), 0o644),
	)
}

func render(text string, data any) (string, error) {
	t, err := template.New("").Parse(text)
	if err != nil {
		return "", err
	}
	var b bytes.Buffer
	if err := t.Execute(&b, data); err != nil {
		return "", err
	}
	return b.String(), nil
}
