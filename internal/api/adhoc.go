package api

// ForwardRequest asks for forwards over a host that are in no config. They are a
// session of their own, which ends with its down.
type ForwardRequest struct {
	Host  string   `json:"host"`
	Specs []string `json:"specs"`          // as in the config: "5432:db.int:5432", "R:9000:localhost:9000", "D:1080"
	Bind  string   `json:"bind,omitempty"` // where to listen in place of loopback; "*" is everywhere
	Env   Env      `json:"env,omitempty"`
}
