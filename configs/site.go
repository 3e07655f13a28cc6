package configs

import (
	"cmp"
	"fmt"
	"net"
	"path"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"time"

	"tunctl/internal/api"
)

// Site is a preset: what is known about one computing centre. It has its own file;
// docs/adding-a-site.md describes its keys.
type Site struct {
	Name      string          `json:"name"`
	Title     string          `json:"title"`
	Path      string          `json:"path,omitempty"` // of the user's own file; "" for those that come with tunctl
	Country   string          `json:"country,omitempty"`
	Verified  bool            `json:"verified"` // false: the centre's documentation has gaps, which other public sources fill
	Scheduler string          `json:"scheduler,omitempty"`
	Entrances []Entrance      `json:"entrances"`
	Transfer  string          `json:"transfer,omitempty"` // the data-transfer node, an ssh destination
	Portal    string          `json:"portal,omitempty"`   // for people without an SSH entrance
	Keys      string          `json:"keys,omitempty"`     // the page where users register their SSH keys, if sshd reads no file of theirs
	Before    string          `json:"before,omitempty"`   // what SSH requires, such as a VPN
	Probe     string          `json:"probe,omitempty"`    // an address that answers only if that is met
	Login     string          `json:"login,omitempty"`    // what a login asks for
	Reach     []api.Reach     `json:"reach,omitempty"`    // in the order to try
	Dial      []string        `json:"dial,omitempty"`     // names by which the login node dials a node; see dialNode
	Log       string          `json:"log,omitempty"`      // the name of a job's log in the site's tutorials
	Keepalive Period          `json:"keepalive,omitempty"`
	IPQoS     string          `json:"ipqos,omitempty"`
	Query     Period          `json:"query,omitempty"` // the shortest time between two queries of the scheduler
	Limits    SiteLimits      `json:"limits,omitzero"`
	Require   []string        `json:"require,omitempty"` // directives without which a job is refused, with an example of their value
	Private   string          `json:"private,omitempty"` // the folder for tunctl's files, if not in the home folder
	Resume    *bool           `json:"resume,omitempty"`  // see Resumes; nil: it does
	Balance   []string        `json:"balance,omitempty"`
	Readers   []BalanceReader `json:"readers,omitempty"`
	Charge    Charge          `json:"charge,omitzero"` // how jobs are charged, if that is documented
	// WholeNodes: jobs get whole nodes, and are charged for them, but in queues that say otherwise.
	WholeNodes bool     `json:"wholeNodes,omitempty"`
	NodeCores  int      `json:"nodeCores,omitempty"` // of one node; 0: not known, or not the same everywhere
	Notes      []string `json:"notes,omitempty"`
	Unsure     []string `json:"unsure,omitempty"` // what is not known for certain
	Help       []string `json:"help,omitempty"`
	Workdir    string   `json:"workdir,omitempty"` // where to submit from; a template of answers
	Queues     []Queue  `json:"queues,omitempty"`
	// Certificate is for sites whose logins need a short-lived one.
	Certificate Certificate `json:"certificate,omitzero"`
	LoginPages  []string    `json:"loginPages,omitempty"` // hosts of the https pages that a login may ask to open
	// HostKeysPage is where the site publishes the fingerprints of its host keys.
	HostKeysPage string `json:"hostKeysPage,omitempty"`

	Questions []Question `json:"questions"`
	Job       Recipe     `json:"-"`
}

// TopicText is the topic of an entry of a site file, as other texts call it.
func TopicText(key string) string {
	words := map[string]string{"entrance": "login node", "balance": "quota", "defaults": "suggested answers"}
	return cmp.Or(words[key], key)
}

// GapsText says what a site rests on that is not verified as a whole.
const GapsText = "the centre's documentation leaves gaps, which are filled from other public sources"

// Label is the title, marked if the site as a whole is not verified.
func (s *Site) Label() string {
	if !s.Verified {
		return s.Title + " (not verified)"
	}
	return s.Title
}

// Resumes reports whether what runs inside jobs on a host of the site outlives the connection.
func (s Site) Resumes(own Host) bool {
	says := cmp.Or(own.Resume, s.Resume)
	return says == nil || *says
}

// AccessHint says what to do if a host of the site cannot be reached: what SSH requires
// and, by a probe, whether that is met.
func (s *Site) AccessHint(host string, answers func(address string) bool) string {
	switch probe := s.ProbeAt(host); {
	case s.Before == "" || probe == "":
		return s.Before
	case answers(probe):
		return fmt.Sprintf("%s responds, so the site accepts your network; `tunctl sites %s` lists its entrances", probe, s.Name)
	case s.Probe == "": // it is the host of which the error has said so
		return s.Before
	default:
		return fmt.Sprintf("%s does not respond from this network. %s", probe, s.Before)
	}
}

// ProbeAt is the address that answers only if what SSH requires is met: the entrance's
// own, unless the site has one for all; other entrances may need another network.
func (s *Site) ProbeAt(host string) string {
	if s.Probe == "" && s.Before != "" {
		if e, ok := s.EntranceAt(host); ok {
			return e.Address(host)
		}
	}
	return s.Probe
}

// Recipe is what a site adds to the script of a builtin job.
type Recipe struct {
	Directives []string // templates of answers; one that comes out empty is left out
	Setup      string   // shell text before modules are loaded; the answers are variables
	// Environment is shell text that runs after modules are loaded, for software that the
	// job installs.
	Environment string
	Private     string   // the folder for private files, in the shell's words
	Binds       []string // folders outside the home that a container needs, in the shell's words
	Enter       string   // the command that enters the site's container from a shell inside the job
	LoginShell  bool     // the job's shell reads the profile: without it there is no `module`
}

func (s *Site) fields() []field {
	return []field{
		{"like", `"narval"`, func(*input) {}}, // read before all others
		{"title", `"Narval, Digital Research Alliance of Canada"`, text(&s.Title)},
		{"country", `"Canada"`, text(&s.Country)},
		{"verified", `false`, boolean(&s.Verified)},
		{"scheduler", `"slurm"`, word(&s.Scheduler, Schedulers()...)},
		{"entrance", "", named(&s.Entrances, newEntrance, (*Entrance).check)},
		{"transfer", `"dtn.example.org"`, text(&s.Transfer, validHost)},
		{"portal", `"https://portal.example.org"`, text(&s.Portal)},
		{"keys", `"https://keys.example.org"`, text(&s.Keys, validAddress)},
		{"host_keys_page", `"https://docs.example.org/hostkeys"`, text(&s.HostKeysPage, validAddress)},
		{"before", `"Connect to the VPN first."`, text(&s.Before)},
		{"probe", `"login.example.org:22"`, text(&s.Probe)},
		{"login", `"a password, then a code"`, text(&s.Login)},
		{"login_pages", `["login.example.org"]`, texts(&s.LoginPages, validWebHost)},
		{"reach", `["login", "node"]`, s.readReach},
		{"dial", `["{node}.cluster.example.org"]`, texts(&s.Dial, validDial)},
		{"log", `"slurm-{id}.out"`, text(&s.Log)},
		{"keepalive", `"30s"`, period(&s.Keepalive, 0)},
		{"ipqos", `"throughput"`, text(&s.IPQoS)},
		{"query", `"2m"`, period(&s.Query, 0)},
		{"limits", "", table(s.Limits.fields())},
		{"require", `["-l filesystems=home:eagle"]`, texts(&s.Require, validRequirement)},
		{"private", `"/work/{group}/{user}/.tunctl"`, text(&s.Private, validPrivate)},
		{"resume", `false`, choice(&s.Resume)},
		{"certificate", "", table(s.Certificate.fields())},
		{"balance", `["sshare -U"]`, texts(&s.Balance)},
		{"charge", "", table(s.Charge.fields())},
		{"whole_nodes", `true`, boolean(&s.WholeNodes)},
		{"node_cores", `128`, number(&s.NodeCores, 0, 10000)},
		{"read", "", named(&s.Readers, newReader, (*BalanceReader).check)}, // of the same name, the last one counts
		{"notes", `["Jobs last at least an hour."]`, texts(&s.Notes)},
		{"unsure", `["reach: to be tried"]`, texts(&s.Unsure)},
		{"help", `["https://docs.example.org"]`, texts(&s.Help)},
		{"workdir", `"{{.folder}}"`, text(&s.Workdir, validTemplate)},
		{"queue", "", named(&s.Queues, newQueue, nil)},
		{"question", "", named(&s.Questions, newQuestion, (*Question).check)}, // of the same name, the last one counts
		{"job", "", table(s.Job.fields())},
	}
}

func (r *Recipe) fields() []field {
	return []field{
		{"directives", `["--account={{.account}}"]`, texts(&r.Directives, validTemplate)},
		{"setup", `"""module load python"""`, block(&r.Setup)},
		{"environment", `"""virtualenv "$SLURM_TMPDIR/env""""`, block(&r.Environment)},
		{"binds", `["/scratch", "$PROJECT"]`, texts(&r.Binds, validBind)},
		{"enter", `"enroot exec PID bash"`, text(&r.Enter)},
		{"login_shell", `true`, boolean(&r.LoginShell)},
		{"private", `"$SCRATCH/.tunctl"`, text(&r.Private)},
	}
}

var (
	// validBind is a folder that is safe in double quotes: a path, or one that begins
	// with a variable.
	validBind = matching(`^(/|\$[A-Za-z_])[A-Za-z0-9_./-]*$`, `is not a folder such as "/scratch" or "$PROJECT"`)

	// validWebHost is the name of a web host, without scheme, port and path.
	validWebHost = matching(`^([a-z0-9]([a-z0-9-]*[a-z0-9])?\.)+[a-z]([a-z0-9-]*[a-z0-9])?$`,
		"is not the name of a web host, in lowercase and without https://, port and path")

	validAddress = matching(`^https://[!-~]+$`, "is not the address of a page, with https://")

	validTemplate = rule{isTemplate, "is not a valid template: answers are written as {{.account}}"}
)

func (s *Site) readReach(in *input) {
	s.Reach = nil
	in.list(func(v *node) {
		if in.oneOf(v, string(api.ReachLogin), string(api.ReachNode), string(api.ReachHere)) {
			s.Reach = append(s.Reach, api.Reach(v.text))
		}
	})
}

func newQuestion(name string) Question { return Question{Name: name, Kind: AskWord} }

// check reports what does not go together in a question.
func (q *Question) check(in *input) {
	switch {
	case !goodVariable.MatchString(q.Name) || slices.Contains(reservedNames, q.Name):
		in.src.addError(in.at, "use lowercase letters, digits and '_'", "%q is not a valid question name: it becomes a shell variable in the job", q.Name)
	case q.Ask == "" && in.complete():
		in.src.addError(in.at, `add: ask = "Which project is charged?"`, "%s has no question text", in.title())
	case q.Kind == AskChoice && len(q.Choices) == 0:
		in.src.addError(in.at, `add: choices = ["a", "b"]`, "%s has no choices", in.title())
	case (q.Min > 0 || q.Max > 0) && q.Kind != AskNumber && q.Kind != AskHours:
		in.src.addError(in.at, `write: kind = "number" or "hours"`, "%s has a minimum or maximum, and is not a number", in.title())
	case q.Default != "":
		if _, err := q.Check(q.Default); err != nil {
			in.src.addError(in.byKey["default"].keyAt, "", "the default is not a valid answer: %v", err)
		}
	}
}

// parseSite reads a site's file. Base returns the site that its key "like" names.
func parseSite(path, name string, data []byte, base func(name string) (Site, bool)) (Site, error) {
	src := newSource(path, data, "entrance", "queue", "question", "read")
	if !src.isText() {
		return Site{}, src.err()
	}
	root := parseTree(src)
	s := Site{Verified: true, Entrances: []Entrance{}, Questions: []Question{}} // [] in JSON, never null
	if like := root.byKey["like"]; like != nil {
		known, ok := base(like.text)
		switch {
		case like.text == name:
			src.addError(like.at, "`tunctl sites` lists the others", "site %q cannot be like itself", name)
		case !ok:
			src.addError(like.at, "`tunctl sites` lists the sites", "no site %q", like.text)
		}
		s = known
		s.Questions, s.Readers = slices.Clone(s.Questions), slices.Clone(s.Readers) // which are changed below
	}
	s.Name, s.Path = name, ""
	if root.byKey["entrance"] != nil { // these replace those of the other site
		s.Entrances = []Entrance{}
	}
	if root.byKey["queue"] != nil {
		s.Queues = nil
	}
	src.readTable(root, s.fields())
	s.Questions = lastOf(s.Questions, func(q Question) string { return q.Name }) // those of the other site first
	s.Readers = lastOf(s.Readers, func(r BalanceReader) string { return r.Name })
	if !strings.Contains(strings.Join(s.Job.Directives, ""), "."+gpuTypeQuestion) { // the question of "like" is about its directives
		s.Questions = slices.DeleteFunc(s.Questions, func(q Question) bool { return q.Name == gpuTypeQuestion })
	}
	if s.Charge != (Charge{}) && s.Charge.Unit == "" {
		src.addFileError(`add: unit = "SU"`, "[charge] has no unit")
	}
	if s.Title == "" && root.complete() {
		src.addFileError(`add: title = "My cluster"`, "the site has no title")
	}
	commands := slices.Sorted(slices.Values(s.Balance))
	for _, r := range s.Readers { // those of "like" may be for other commands
		command := root.get("read").get(r.Name).get("command")
		if _, known := slices.BinarySearch(commands, r.Command); !known && r.Command != "" && r.Command == command.text {
			src.addError(command.at, didYouMean(r.Command, s.Balance), "%q is not one of the site's balance commands", r.Command)
		}
	}
	s.checkTemplates(src)
	if err := src.err(); err != nil {
		return Site{}, err
	}
	return s, nil
}

// checkTemplates renders every template once, so that errors are found when the site is
// read and not when somebody submits a job.
func (s *Site) checkTemplates(src *source) {
	if len(src.errors) > 0 {
		return
	}
	sample := map[string]string{"name": "job"}
	for _, q := range s.allQuestions("") {
		sample[q.Name] = cmp.Or(q.Default, q.sample())
	}
	for _, text := range append(slices.Clone(s.Job.Directives), s.Workdir) {
		if _, err := fill(text, sample); err != nil {
			src.addFileError("every {{.name}} needs a [question.name]", "the template %q cannot be filled: %v", text, err)
		}
	}
}

func isTemplate(text string) bool {
	_, err := parseTemplate(text)
	return err == nil
}

func parseTemplate(text string) (*template.Template, error) {
	return template.New("").Option("missingkey=error").Funcs(template.FuncMap{"hms": hms}).Parse(text)
}

// fill renders a template with answers.
func fill(text string, answers map[string]string) (string, error) {
	t, err := parseTemplate(text)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	if err := t.Execute(&b, answers); err != nil {
		return "", err
	}
	return strings.TrimSpace(b.String()), nil
}

// hms writes a number of hours as for schedulers: 02:00:00. It rounds up to minutes: for
// Slurm, zero means no limit.
func hms(hours string) (string, error) {
	d, err := time.ParseDuration(hours + "h")
	if err != nil {
		return "", fmt.Errorf("%q is not a number of hours", hours)
	}
	minutes := int((d + time.Minute - 1) / time.Minute)
	return fmt.Sprintf("%02d:%02d:00", minutes/60, minutes%60), nil
}

// ownContainer reports whether the site's jobs enter a container of the site, in which nothing
// has an effect that is loaded or activated outside.
func (s *Site) ownContainer() bool { return strings.Contains(s.Job.Setup, "run=(") }

// allQuestions are the questions of the site and those of every job.
func (s *Site) allQuestions(app string) []Question {
	all, others := slices.Clone(s.Questions), jobKindOf(app).questions
	if !s.ownContainer() {
		others = append(softwareQuestions(), others...)
	}
	for _, q := range others {
		if app == ShellApp && q.Name == "container" {
			continue // a shell inside the job is outside of every container
		}
		if _, has := questionNamed(all, q.Name); !has {
			all = append(all, q)
		}
	}
	return all
}

// Entrance is a login node of a site.
type Entrance struct {
	Name    string   `json:"name"`
	Host    string   `json:"host"`
	Port    int      `json:"port,omitempty"`    // 0: 22
	Jump    string   `json:"jump,omitempty"`    // the host to go through, an ssh destination
	Aliases []string `json:"aliases,omitempty"` // its other names; * stands for any characters
	About   string   `json:"about,omitempty"`
	// HostKeys are the fingerprints that the site publishes.
	HostKeys []string `json:"hostKeys,omitempty"`
}

// Is reports whether host is a name of the entrance.
func (e *Entrance) Is(host string) bool {
	host = strings.ToLower(host)
	return slices.ContainsFunc(e.names(), func(name string) bool {
		ok, err := path.Match(strings.ToLower(name), host)
		return ok && err == nil
	})
}

func (e *Entrance) names() []string { return append([]string{e.Host}, e.Aliases...) }

// Address is what to dial to reach the entrance by one of its names.
func (e *Entrance) Address(host string) string {
	return net.JoinHostPort(host, strconv.Itoa(cmp.Or(e.Port, 22)))
}

// EntranceAt returns the entrance that has that name.
func (s *Site) EntranceAt(host string) (Entrance, bool) {
	return find(s.Entrances, func(e Entrance) bool { return e.Is(host) })
}

func newEntrance(name string) Entrance { return Entrance{Name: name} }

func (e *Entrance) check(in *input) { in.requires("host", `"login.example.org"`) }

func (e *Entrance) fields() []field {
	return []field{
		{"host", `"login.example.org"`, text(&e.Host, validHost)},
		{"port", `2222`, number(&e.Port, 1, 65535)},
		{"jump", `"gateway.example.org"`, text(&e.Jump, validHost)},
		{"aliases", `["login*.example.org"]`, texts(&e.Aliases, matching(`^[A-Za-z0-9*][A-Za-z0-9*._-]*$`, "is not a host name"))},
		{
			"host_keys", `["SHA256:0123456789abcdefghijklmnopqrstuvwxyzABCDEFG"]`,
			texts(&e.HostKeys, matching(`^SHA256:[A-Za-z0-9+/]{43}$`, "is not a fingerprint as ssh shows it")),
		},
		{"about", `"from the campus network"`, text(&e.About)},
	}
}

// SiteLimits are a site's wishes that are stricter than tunctl's own limits. Zero: none.
type SiteLimits struct {
	Sessions     int    `json:"sessions,omitempty"`     // commands at a time on one connection
	LoginSpacing Period `json:"loginSpacing,omitempty"` // the shortest time between two automatic logins
	Retry        Period `json:"retry,omitempty"`        // the shortest time between two attempts to connect
	Refusals     int    `json:"refusals,omitempty"`     // refused logins until the user must act
}

func (l *SiteLimits) fields() []field {
	return []field{
		{"sessions", `1`, number(&l.Sessions, 1, 1000)},
		{"login_spacing", `"5m"`, period(&l.LoginSpacing, 0)},
		{"retry", `"1m"`, period(&l.Retry, 0)},
		{"refusals", `1`, number(&l.Refusals, 1, 1000)},
	}
}

// Certificate is a site's short-lived SSH certificate, which the user gets by logging in
// elsewhere.
type Certificate struct {
	Lifetime Period `json:"lifetime,omitempty"`
	Renew    string `json:"renew,omitempty"` // the command that gets one, for before_login; CAPITALS are to be replaced
	File     string `json:"file,omitempty"`  // where that command puts it on this computer
}

// Text says how long a login certificate is valid, and how to get one; "" where none is needed.
func (c *Certificate) Text() string {
	var parts []string
	if c.Lifetime > 0 {
		parts = append(parts, "valid for "+c.Lifetime.Words())
	}
	if c.Renew != "" {
		parts = append(parts, fmt.Sprintf("get one with `%s`, which before_login in the config can run", c.Renew))
	}
	return strings.Join(parts, "; ")
}

// Key is the file of the certificate's key on this computer.
func (c *Certificate) Key() string { return strings.TrimSuffix(LocalPath(c.File), certificateSuffix) }

func (c *Certificate) fields() []field {
	return []field{
		{"lifetime", `"24h"`, period(&c.Lifetime, time.Minute)}, // a shorter one cannot be used
		{"renew", `"step ssh login MAIL"`, text(&c.Renew)},
		{"file", `"~/.ssh/site-cert.pub"`, text(&c.File,
			matching(certificateSuffix+"$", "does not end in "+certificateSuffix+", as files of SSH certificates do"))},
	}
}

// certificateSuffix ends the name of a certificate's file; the rest is its key's.
const certificateSuffix = "-cert.pub"

// What a name in `dial` may contain.
const (
	dialNode    = "{node}"    // the node's name without its domain
	dialAddress = "{address}" // its addresses, as the login node knows them
)

var validDial = matching(`^([A-Za-z0-9.-]*\{node\}[A-Za-z0-9.-]*|\{address\})$`, "is neither {address} nor a host name with {node} in it")

// DialNames are the names by which the site's login nodes dial a compute node, in the order
// to try. addresses looks up what the login node knows.
func (s *Site) DialNames(node string, addresses func() []string) []string {
	short, _, _ := strings.Cut(node, ".")
	return s.dialNames(short, addresses)
}

func (s *Site) dialNames(short string, addresses func() []string) []string {
	var names []string
	for _, text := range s.Dial {
		if text == dialAddress {
			names = append(names, addresses()...)
			continue
		}
		names = append(names, strings.ReplaceAll(text, dialNode, short))
	}
	return names
}

// validRequirement is a directive as a job would have it: the option counts, its value is an
// example.
var validRequirement = matching(`^-(-[a-z][a-z-]*(=\S+)?|[A-Za-z]( \S+)?)$`,
	`is not an option of a job such as "--account=PROJECT" or "-l filesystems=home"`)
