package forwards

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"tunctl/configs"
	"tunctl/internal/api"
	"tunctl/tunnel/sshconfig"
)

// FromSSHConfig are the forwards of a host in the user's ssh_config.
func FromSSHConfig(host string, settings sshconfig.Settings) ([]configs.ForwardSpec, error) {
	var specs []configs.ForwardSpec
	var errs []error
	add := func(kind api.ForwardKind, lines []string) {
		for _, line := range lines {
			spec, err := parse(kind, line)
			specs, errs = append(specs, spec), append(errs, err)
		}
	}
	add(api.ForwardLocal, settings.LocalForwards)
	add(api.ForwardRemote, settings.RemoteForwards)
	add(api.ForwardDynamic, settings.DynamicForwards)
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if len(specs) == 0 {
		return nil, api.Errorf(api.CodeConfig, "no forwards for %s in the ssh config", host).
			WithHint(`add LocalForward lines there, or set forward = ["5432:db.int:5432"] in the config`)
	}
	return specs, nil
}

// parse reads "8080 [db.int]:80", as ssh -G prints a forward.
func parse(kind api.ForwardKind, line string) (configs.ForwardSpec, error) {
	words := strings.Fields(line)
	if len(words) == 0 || len(words) > 2 {
		return configs.ForwardSpec{}, fmt.Errorf("ssh config: cannot read forward %q", line)
	}
	spec := configs.ForwardSpec{Kind: kind, Listen: words[0]}
	if _, err := strconv.Atoi(words[0]); err == nil {
		spec.Listen = net.JoinHostPort("localhost", words[0])
	}
	if len(words) == 2 {
		host, port, err := net.SplitHostPort(words[1])
		if err != nil {
			spec.Target = words[1] // a socket
		} else {
			spec.Target = net.JoinHostPort(host, port)
		}
	}
	return spec, nil
}
