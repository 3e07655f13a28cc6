package lab

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/crypto/ssh"
)

var errUnknownKey = errors.New("the practice cluster accepts only its own key")

// writeKeys creates the keys of this run, writes what a client needs to the cluster's
// folder, and returns the config of the server.
func (c *Cluster) writeKeys() (*ssh.ServerConfig, error) {
	host, _, err := c.writeKey("host_ed25519")
	if err != nil {
		return nil, err
	}
	_, student, err := c.writeKey("id_ed25519")
	if err != nil {
		return nil, err
	}
	if err := c.writeClientFiles(host.PublicKey()); err != nil {
		return nil, err
	}
	config := &ssh.ServerConfig{
		ServerVersion: "SSH-2.0-tunctl_practice",
		BannerCallback: func(ssh.ConnMetadata) string {
			return "This is tunctl's practice cluster, on your own computer.\n"
		},
		PublicKeyCallback: func(meta ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
			if meta.User() == user && bytes.Equal(key.Marshal(), student.Marshal()) {
				return &ssh.Permissions{}, nil
			}
			return nil, errUnknownKey
		},
	}
	config.AddHostKey(host)
	return config, nil
}

func (c *Cluster) writeKey(name string) (ssh.Signer, ssh.PublicKey, error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	block, err := ssh.MarshalPrivateKey(private, "tunctl practice")
	if err != nil {
		return nil, nil, err
	}
	if err := os.WriteFile(filepath.Join(c.sshDir(), name), pem.EncodeToMemory(block), 0o600); err != nil {
		return nil, nil, err
	}
	signer, err := ssh.NewSignerFromSigner(private)
	if err != nil {
		return nil, nil, err
	}
	return signer, signer.PublicKey(), nil
}

func (c *Cluster) writeClientFiles(hostKey ssh.PublicKey) error {
	host, port, err := net.SplitHostPort(c.addr)
	if err != nil {
		return err
	}
	names := append([]string{fmt.Sprintf("[%s]:%s", host, port)}, nodes...)
	known := strings.Join(names, ",") + " " + string(ssh.MarshalAuthorizedKey(hostKey))
	knownHosts := filepath.Join(c.sshDir(), "known_hosts")
	if err := os.WriteFile(knownHosts, []byte(known), 0o600); err != nil {
		return err
	}
	common := fmt.Sprintf(`    User %s
    IdentityFile %s
    IdentitiesOnly yes
    IdentityAgent none
    UserKnownHostsFile %s
    StrictHostKeyChecking yes
`, user, configPath(filepath.Join(c.sshDir(), "id_ed25519")), configPath(knownHosts))
	config := fmt.Sprintf(`# tunctl's practice cluster: it lives on this computer, for as long as it runs.
Host %s
    HostName %s
    Port %s
%s
Host %s
    ProxyJump %s
%s`, alias, host, port, common, nodePattern, alias, common)
	return os.WriteFile(c.SSHConfig(), []byte(config), 0o600)
}

// configPath writes a path as ssh_config wants it: slashes also on Windows, and
// quotes only where they are needed, since not every reader knows them.
func configPath(path string) string {
	path = filepath.ToSlash(path)
	if strings.ContainsAny(path, " \t") {
		return `"` + path + `"`
	}
	return path
}
