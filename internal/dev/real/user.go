package real

import (
	"fmt"
	"strings"
)

// user is the user of the cluster.
type user struct {
	name  string
	id    int
	shell string
}

// users are those with the login shells people have, and two for the limits of
// accounts: alice shares proj2, nobank has no account at all.
var users = []user{
	{"hpcuser", 2001, "/bin/bash"},
	{"alice", 2002, "/bin/bash"},
	{"nobank", 2003, "/bin/bash"},
	{"zshuser", 2004, "/usr/bin/zsh"},
	{"fishuser", 2005, "/usr/bin/fish"},
	{"tcshuser", 2006, "/usr/bin/tcsh"},
}

func userByName(name string) (user, error) {
	for _, u := range users {
		if u.name == name {
			return u, nil
		}
	}
	return user{}, fmt.Errorf("no user %q in the lab", name)
}

func (u user) passwd() string {
	return fmt.Sprintf("%s:x:%d:%d::/home/%s:%s", u.name, u.id, u.id, u.name, u.shell)
}

func (u user) group() string { return fmt.Sprintf("%s:x:%d:", u.name, u.id) }

func (u user) shadow() string {
	return fmt.Sprintf("%s:%s:19000:0:99999:7:::", u.name, passwordHash)
}

// withUsers is the machine's passwd, group or shadow file with the lab's users
// in place of any that have the same names.
func withUsers(machine string, line func(user) string) string {
	var lines []string
	for old := range strings.Lines(machine) {
		name, _, _ := strings.Cut(old, ":")
		if _, err := userByName(name); err != nil {
			lines = append(lines, strings.TrimSuffix(old, "\n"))
		}
	}
	for _, u := range users {
		lines = append(lines, line(u))
	}
	return strings.Join(lines, "\n") + "\n"
}
