package real

import "os"

// RotateHostKey gives an sshd new host keys.
func (c *Cluster) RotateHostKey(alias string) error {
	return c.replaceHostKeys(alias, func(f hostKeyFile) ([]byte, error) {
		private, _, err := newKey(f.kind, "rotated")
		return private, err
	})
}

// RestoreHostKey gives an sshd back the keys that known_hosts has.
func (c *Cluster) RestoreHostKey(alias string) error {
	return c.replaceHostKeys(alias, func(f hostKeyFile) ([]byte, error) { return os.ReadFile(f.outside) })
}

func (c *Cluster) replaceHostKeys(alias string, key func(hostKeyFile) ([]byte, error)) error {
	s, err := sshdByAlias(alias)
	if err != nil {
		return err
	}
	for _, f := range c.hostKeyFiles(s.node) {
		text, err := key(f)
		if err != nil {
			return err
		}
		path, err := c.root(s.node, f.inside)
		if err != nil {
			return err
		}
		if err := os.WriteFile(path, text, 0o600); err != nil {
			return err
		}
	}
	return c.RestartSSHD(alias)
}
