package main

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"tunctl/configs"
	"tunctl/internal/agent/settings"
	"tunctl/internal/api"
	"tunctl/internal/home"
	"tunctl/internal/lists"
	"tunctl/internal/term"
	"tunctl/tunnel/sshconfig"
	"tunctl/tunnel/userkeys"
)

// readConfig is the config, empty if it cannot be read: a name may be an alias of
// ~/.ssh/config.
func readConfig(p home.Paths) *configs.Config {
	cfg, err := configs.Load(p.Config)
	if err != nil {
		return &configs.Config{Path: p.Config}
	}
	return cfg
}

// loadConfig reads the config for a command that needs one.
func loadConfig(p home.Paths) (*configs.Config, error) {
	cfg, err := configs.Load(p.Config)
	return cfg, configError(p, err)
}

// configError explains why the config could not be read, if it could not.
func configError(p home.Paths, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, os.ErrNotExist):
		return api.Errorf(api.CodeConfig, "no config file at %s", p.Config).Because(err).
			WithHint("`tunctl init` asks a few questions and creates one; `tunctl config edit` starts from an example; %s", demoHint)
	}
	return api.Errorf(api.CodeConfig, "%w", err)
}

// existingConfig reads the config; where there is no file, it is empty.
func existingConfig(p home.Paths) (*configs.Config, error) {
	cfg, err := loadConfig(p)
	if errors.Is(err, os.ErrNotExist) {
		return &configs.Config{Path: p.Config}, nil
	}
	return cfg, err
}

// loadSites returns the sites, and reports those that cannot be read.
func loadSites(t *term.Terminal, p home.Paths) configs.Sites {
	sites, err := configs.LoadSites(configs.SitesFolder(p.Config), p.Sites)
	if err != nil {
		t.Say("%v", err)
	}
	return sites
}

// readSites returns the sites that can be read; `tunctl sites` reports the others.
func readSites(p home.Paths) configs.Sites {
	sites, _ := configs.LoadSites(configs.SitesFolder(p.Config), p.Sites)
	return sites
}

// resolver reads host settings as the agent does.
func resolver(p home.Paths, cfg *configs.Config) sshconfig.Resolver {
	return settings.Resolver(cfg, readSites(p), sshConfigFile(cfg), p)
}

func readHost(ctx context.Context, read sshconfig.Resolver, name string) (api.Host, error) {
	settings, err := read.Settings(ctx, name)
	h := settings.Host()
	h.Alias, h.CertificateEnds = name, userkeys.CertificateEnds(&settings)
	return h, err
}

func sshConfigFile(cfg *configs.Config) string {
	if f := os.Getenv("TUNCTL_SSH_CONFIG"); f != "" {
		return f
	}
	return cfg.SSHConfig
}

// knownHosts are the config's hosts and the ssh config's aliases.
func knownHosts(cfg *configs.Config) []string {
	aliases, _ := sshconfig.Aliases(sshConfigFile(cfg)) // a file that cannot be read has none
	return slices.Sorted(slices.Values(cfg.HostNames(aliases...)))
}

// configuredSessions are the names of the sessions in the config.
func configuredSessions(cfg *configs.Config) []string {
	return lists.Map(cfg.Sessions, func(s configs.Session) string { return s.Name })
}

// isPractice reports whether the agent of these files serves a practice cluster, whose limits are
// short. The user's own agent never does.
func isPractice(p home.Paths) bool { return p.Moved && os.Getenv("TUNCTL_PRACTICE") != "" }

// isPracticeAddress reports whether an address can only be a practice cluster's. No host
// of others is in the domain test (RFC 6761).
func isPracticeAddress(address string) bool {
	addr, err := netip.ParseAddr(address)
	return address == "localhost" || strings.HasSuffix(address, ".test") || err == nil && (addr.IsLoopback() || labNetwork.Contains(addr))
}

// isPracticeHome reports whether the home folder is that of a demo.
func isPracticeHome(p home.Paths) bool {
	dir := filepath.Base(filepath.Dir(filepath.Dir(p.State))) // DIR/home/state
	return isPractice(p) || p.Moved && strings.HasPrefix(dir, demoFolder)
}

// labNetwork are the addresses of the lab's own clusters; see internal/dev/real.
var labNetwork = netip.MustParsePrefix("10.77.0.0/16")

// demoFolder begins the name of a demo's temporary folder.
const demoFolder = "tunctl-demo-"
