package configs

import (
	"strconv"

	"github.com/pelletier/go-toml/v2/unstable"
)

// MCP says what assistants may do through `tunctl mcp`.
type MCP struct {
	// NodeHours is how much the jobs that assistants start within a day may ask for, in
	// all. 0: they start none.
	NodeHours float64
}

func mcpFields() []field[MCP] {
	return []field[MCP]{
		{"node_hours", `8`, func(in *input, m *MCP) {
			v := in.entry.value
			if v.kind != unstable.Integer && v.kind != unstable.Float {
				in.mustBe(v, "a number")
				return
			}
			hours, err := strconv.ParseFloat(v.text, 64)
			if err != nil || !(hours >= 0 && hours <= 1e6) {
				in.addError(v.at, "write: node_hours = "+in.example, "%q must be a number from 0 to 1000000, not %s", in.entry.key, v.text)
				return
			}
			m.NodeHours = hours
		}},
	}
}
