package configs

import (
	"slices"

	"github.com/pelletier/go-toml/v2/unstable"
)

// notifyKinds are the kinds of notifications that can be chosen.
func notifyKinds() []string {
	return []string{"ready", "needs-login", "time-limit", "ended", "link"}
}

// Notify is which notifications a person wants. The zero value allows all.
type Notify struct {
	Off  bool
	Only []string // the kinds that are wanted; none listed means all
}

// Allows reports whether notifications of the kind are wanted.
func (n Notify) Allows(kind string) bool {
	return !n.Off && (len(n.Only) == 0 || slices.Contains(n.Only, kind))
}

// readNotify reads true, false or a list of kinds.
func readNotify(in *input) Notify {
	switch v := in.entry.value; v.kind {
	case unstable.Bool:
		return Notify{Off: v.text == "false"}
	case unstable.Array:
		n := Notify{Off: len(v.items) == 0}
		in.list(func(v value) {
			if kind, ok := in.word(v, notifyKinds()); ok {
				n.Only = append(n.Only, kind)
			}
		})
		return n
	default:
		in.complain(v.at, `write: notify = true, or notify = ["ready", "needs-login"]`,
			"%q must be true, false or a list, not %s", in.entry.key, kindName(v.kind))
		return Notify{}
	}
}
