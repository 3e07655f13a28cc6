package main

import (
	"net/url"

	"golang.org/x/sys/windows/registry"
)

// puttyHosts are the hosts of PuTTY's saved sessions, as user@host.
func puttyHosts() []string {
	const path = `Software\SimonTatham\PuTTY\Sessions`
	all, err := registry.OpenKey(registry.CURRENT_USER, path, registry.ENUMERATE_SUB_KEYS)
	if err != nil {
		return nil // no PuTTY
	}
	defer func() { _ = all.Close() }()
	names, err := all.ReadSubKeyNames(-1)
	if err != nil {
		return nil
	}
	var hosts []string
	for _, name := range names {
		if host := puttyHost(path + `\` + name); host != "" {
			hosts = append(hosts, host)
		}
	}
	return hosts
}

func puttyHost(path string) string {
	key, err := registry.OpenKey(registry.CURRENT_USER, path, registry.QUERY_VALUE)
	if err != nil {
		return ""
	}
	defer func() { _ = key.Close() }()
	protocol, _, err := key.GetStringValue("Protocol")
	if err != nil || protocol != "ssh" {
		return ""
	}
	host, _, err := key.GetStringValue("HostName")
	if err != nil || host == "" {
		return ""
	}
	if plain, err := url.PathUnescape(host); err == nil {
		host = plain
	}
	if user, _, err := key.GetStringValue("UserName"); err == nil && user != "" {
		return user + "@" + host
	}
	return host
}
