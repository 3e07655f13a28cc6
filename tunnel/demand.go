package tunnel

import (
	"maps"
	"slices"
)

// demand is who wants a host. The host's lock guards it.
type demand struct {
	asked bool             // Up or Want was called, and Down was not called since
	users map[*Host]string // the hosts that go through this one, or share the connection of that identity
}

func (d *demand) userNames() (names []string) {
	for user := range d.users {
		names = append(names, user.name)
	}
	slices.Sort(names)
	return names
}

// keepSharers drops the users that share a connection of another identity, and reports
// whether there were any.
func (d *demand) keepSharers(identity string) (dropped bool) {
	before := len(d.users)
	maps.DeleteFunc(d.users, func(_ *Host, shared string) bool { return shared != "" && shared != identity })
	return len(d.users) < before
}
