package setup

import "golang.org/x/sys/windows/registry"

// puttyHosts are the hosts of PuTTY's saved sessions, as ssh takes them.
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
		if host := readPutty(path + `\` + name).destination(); host != "" {
			hosts = append(hosts, host)
		}
	}
	return hosts
}

// readPutty reads a saved session. A missing value is PuTTY's default.
func readPutty(path string) puttySession {
	key, err := registry.OpenKey(registry.CURRENT_USER, path, registry.QUERY_VALUE)
	if err != nil {
		return puttySession{}
	}
	defer func() { _ = key.Close() }()
	text := func(name string) string {
		value, _, _ := key.GetStringValue(name)
		return value
	}
	port, _, _ := key.GetIntegerValue("PortNumber")
	return puttySession{protocol: text("Protocol"), host: text("HostName"), user: text("UserName"), port: port}
}
