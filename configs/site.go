package configs

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
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
	Path      string          `json:"path,omitempty"` // of a person's own file; "" for those that come with tunctl
	Country   string          `json:"country,omitempty"`
	Verified  bool            `json:"verified"` // false: the centre's documentation has gaps, which other public sources fill
	Scheduler string          `json:"scheduler,omitempty"`
	Entrances []Entrance      `json:"entrances"`
	Transfer  string          `json:"transfer,omitempty"` // the data-transfer node, an ssh destination
	Portal    string          `json:"portal,omitempty"`   // for people without an SSH entrance
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
	Balance   []string        `json:"balance,omitempty"`
	Readers   []BalanceReader `json:"readers,omitempty"`
	Charge    Charge          `json:"charge,omitzero"` // how jobs are charged, if that is documented
	Notes     []string        `json:"notes,omitempty"`
	Unsure    []string        `json:"unsure,omitempty"` // what is not known for certain
	Help      []string        `json:"help,omitempty"`
	Workdir   string          `json:"workdir,omitempty"` // where to submit from; a template of answers
	Queues    []Queue         `json:"queues,omitempty"`
	// Certificate is for sites whose logins need a short-lived one.
	Certificate Certificate `json:"certificate,omitzero"`
	LoginPages  []string    `json:"loginPages,omitempty"` // hosts of the https pages that a login may ask to open
	Questions   []Question  `json:"questions"`
	Job         Recipe      `json:"-"`
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

// AccessHint says what to do if a host of the site cannot be reached: what SSH requires
// and, by a probe, whether that is met.
func (s *Site) AccessHint(host string, answers func(address string) bool) string {
	probe := s.ProbeAt(host)
	switch {
	case s.Before == "" || probe == "":
		return s.Before
	case answers(probe):
		return fmt.Sprintf("%s responds, so the site accepts your network; `tunctl sites %s` lists its entrances", probe, s.Name)
	}
	if s.Probe == "" { // it is the host of which the error has said so
		return s.Before
	}
	return fmt.Sprintf("%s does not respond from this network. %s", probe, s.Before)
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

func siteFields() []field[Site] {
	return []field[Site]{
		{"like", `"narval"`, func(*input, *Site) {}}, // read before all others
		{"title", `"Narval, Digital Research Alliance of Canada"`, setText(func(s *Site) *string { return &s.Title })},
		{"country", `"Canada"`, setText(func(s *Site) *string { return &s.Country })},
		{"verified", `false`, setFlag(func(s *Site) *bool { return &s.Verified })},
		{"scheduler", `"slurm"`, setWord(func(s *Site) *string { return &s.Scheduler }, Schedulers()...)},
		{"entrance", "", (*input).entrances},
		{"transfer", `"dtn.example.org"`, func(in *input, s *Site) { s.Transfer, _ = in.destination() }},
		{"portal", `"https://portal.example.org"`, setText(func(s *Site) *string { return &s.Portal })},
		{"before", `"Connect to the VPN first."`, setText(func(s *Site) *string { return &s.Before })},
		{"probe", `"login.example.org:22"`, setText(func(s *Site) *string { return &s.Probe })},
		{"login", `"a password, then a code"`, setText(func(s *Site) *string { return &s.Login })},
		{"login_pages", `["login.example.org"]`, setMatching(validWebHost, "the name of a web host, in lowercase and without https://, port and path", func(s *Site) *[]string { return &s.LoginPages })},
		{"reach", `["login", "node"]`, (*input).siteReach},
		{"dial", `["{node}.cluster.example.org"]`, (*input).dial},
		{"log", `"slurm-{id}.out"`, setText(func(s *Site) *string { return &s.Log })},
		{"keepalive", `"30s"`, setPeriod(func(s *Site) *Period { return &s.Keepalive })},
		{"ipqos", `"throughput"`, setText(func(s *Site) *string { return &s.IPQoS })},
		{"query", `"2m"`, setPeriod(func(s *Site) *Period { return &s.Query })},
		{"limits", "", setTable(limitFields, func(s *Site) *SiteLimits { return &s.Limits })},
		{"require", `["-l filesystems=home:eagle"]`, (*input).requirements},
		{"private", `"/work/{group}/{user}/.tunctl"`, func(in *input, s *Site) {
			if text, ok := in.privateFolder(); ok {
				s.Private = text
			}
		}},
		{"certificate", "", setTable(certificateFields, func(s *Site) *Certificate { return &s.Certificate })},
		{"balance", `["sshare -U"]`, setTexts(func(s *Site) *[]string { return &s.Balance })},
		{"charge", "", setTable(chargeFields, func(s *Site) *Charge { return &s.Charge })},
		{"read", "", (*input).readers},
		{"notes", `["Jobs last at least an hour."]`, setTexts(func(s *Site) *[]string { return &s.Notes })},
		{"unsure", `["reach: to be tried"]`, setTexts(func(s *Site) *[]string { return &s.Unsure })},
		{"help", `["https://docs.example.org"]`, setTexts(func(s *Site) *[]string { return &s.Help })},
		{"workdir", `"{{.folder}}"`, (*input).siteWorkdir},
		{"queue", "", (*input).queues},
		{"question", "", (*input).questions},
		{"job", "", setTable(recipeFields, func(s *Site) *Recipe { return &s.Job })},
	}
}

func recipeFields() []field[Recipe] {
	return []field[Recipe]{
		{"directives", `["--account={{.account}}"]`, func(in *input, r *Recipe) {
			r.Directives = []string{}
			in.list(func(v value) {
				if text, ok := in.line(v); ok && in.template(v, text) {
					r.Directives = append(r.Directives, text)
				}
			})
		}},
		{"setup", `"""module load python"""`, setBlock(func(r *Recipe) *string { return &r.Setup })},
		{"environment", `"""virtualenv "$SLURM_TMPDIR/env""""`, setBlock(func(r *Recipe) *string { return &r.Environment })},
		{"binds", `["/scratch", "$PROJECT"]`, setMatching(validBind, `a folder such as "/scratch" or "$PROJECT"`, func(r *Recipe) *[]string { return &r.Binds })},
		{"enter", `"enroot exec PID bash"`, setText(func(r *Recipe) *string { return &r.Enter })},
		{"login_shell", `true`, setFlag(func(r *Recipe) *bool { return &r.LoginShell })},
		{"private", `"$SCRATCH/.tunctl"`, setText(func(r *Recipe) *string { return &r.Private })},
	}
}

// setBlock makes the reader of a field that is shell text of some lines.
func setBlock(where func(*Recipe) *string) func(*input, *Recipe) {
	return func(in *input, r *Recipe) {
		if text, ok := in.block(); ok {
			*where(r) = text
		}
	}
}

// validBind matches folders that are safe in double quotes: a path, or one that begins
// with a variable.
var validBind = regexp.MustCompile(`^(/|\$[A-Za-z_])[A-Za-z0-9_./-]*$`)

// validWebHost matches the name of a web host, without scheme, port and path.
var validWebHost = regexp.MustCompile(`^([a-z0-9]([a-z0-9-]*[a-z0-9])?\.)+[a-z]([a-z0-9-]*[a-z0-9])?$`)

// template checks that text is a template.
func (in *input) template(v value, text string) bool {
	if _, err := parseTemplate(text); err != nil {
		in.addError(v.at, "write answers as {{.account}}", "bad template: %v", err)
		return false
	}
	return true
}

func (in *input) siteWorkdir(s *Site) {
	if text, ok := in.text(); ok && in.template(in.entry.value, text) {
		s.Workdir = text
	}
}

func (in *input) siteReach(s *Site) {
	s.Reach = nil
	in.list(func(v value) {
		if word, ok := in.word(v, []string{string(api.ReachLogin), string(api.ReachNode), string(api.ReachHere)}); ok {
			s.Reach = append(s.Reach, api.Reach(word))
		}
	})
}

// entrances replaces those of the base site.
func (in *input) entrances(s *Site) {
	s.Entrances = nil
	in.tables(func(name string, t *table) {
		e := Entrance{Name: name}
		readTable(in.src, t, entranceFields(), &e)
		if t.byKey["host"] == nil && t.complete() {
			in.addError(t.at, `add: host = "login.example.org"`, "%s has no host", t.title())
		}
		s.Entrances = append(s.Entrances, e)
	})
}

// questions adds to or replaces those of the base site.
func (in *input) questions(s *Site) {
	in.tables(func(name string, t *table) {
		q := Question{Name: name, Kind: AskWord}
		readTable(in.src, t, questionFields(), &q)
		in.checkQuestion(t, &q)
		if i := slices.IndexFunc(s.Questions, func(x Question) bool { return x.Name == name }); i >= 0 {
			s.Questions[i] = q
			return
		}
		s.Questions = append(s.Questions, q)
	})
}

func (in *input) checkQuestion(t *table, q *Question) {
	switch {
	case !goodVariable.MatchString(q.Name) || slices.Contains(reservedNames, q.Name):
		in.addError(t.at, "use lowercase letters, digits and '_'", "%q is not a valid question name: it becomes a shell variable in the job", q.Name)
	case q.Ask == "" && t.complete():
		in.addError(t.at, `add: ask = "Which project is charged?"`, "%s has no question text", t.title())
	case q.Kind == AskChoice && len(q.Choices) == 0:
		in.addError(t.at, `add: choices = ["a", "b"]`, "%s has no choices", t.title())
	case (q.Min > 0 || q.Max > 0) && q.Kind != AskNumber && q.Kind != AskHours:
		in.addError(t.at, `write: kind = "number" or "hours"`, "%s has a minimum or maximum, and is not a number", t.title())
	case q.Default != "":
		if _, err := q.Check(q.Default); err != nil {
			in.addError(t.byKey["default"].at, "", "the default is not a valid answer: %v", err)
		}
	}
}

// Period is a duration that is written as "30s" in JSON, too.
type Period time.Duration

// MarshalText implements encoding.TextMarshaler.
func (p Period) MarshalText() ([]byte, error) { return []byte(time.Duration(p).String()), nil }

// setPeriod makes the reader of a field that is a time, such as "30s".
func setPeriod[T any](where func(*T) *Period) func(*input, *T) {
	return func(in *input, into *T) {
		text, ok := in.text()
		if !ok {
			return
		}
		d, err := time.ParseDuration(text)
		if err != nil || d <= 0 {
			in.addError(in.entry.value.at, "write: "+in.entry.key+" = "+in.example, "%q is not a time such as \"30s\" or \"2m\"", text)
			return
		}
		*where(into) = Period(d)
	}
}

// parseSite reads a site's file. Base returns the site that its key "like" names.
func parseSite(path, name string, data []byte, base func(name string) (Site, bool)) (Site, error) {
	src := newSource(path, bytes.TrimPrefix(data, []byte("\uFEFF")))
	src.kinds = []string{"entrance", "queue", "question", "read"}
	if !checkText(src) {
		return Site{}, src.err()
	}
	root := parseTree(src)
	s := Site{Verified: true}
	if e := root.byKey["like"]; e != nil {
		like := e.value.text
		known, ok := base(like)
		switch {
		case like == name:
			src.addError(e.value.at, "`tunctl sites` lists the others", "site %q cannot be like itself", name)
		case !ok:
			src.addError(e.value.at, "`tunctl sites` lists the sites", "no site %q", like)
		}
		s = known.clone()
	}
	s.Name, s.Path = name, ""
	readTable(src, root, siteFields(), &s)
	if !strings.Contains(strings.Join(s.Job.Directives, ""), "."+gpuTypeQuestion) { // the question of "like" is about its directives
		s.Questions = slices.DeleteFunc(s.Questions, func(q Question) bool { return q.Name == gpuTypeQuestion })
	}
	if s.Charge != (Charge{}) && s.Charge.Unit == "" {
		src.addFileError(`add: unit = "SU"`, "[charge] has no unit")
	}
	if s.Title == "" && root.complete() {
		src.addFileError(`add: title = "My cluster"`, "the site has no title")
	}
	checkReaders(src, root, &s)
	checkTemplates(src, &s)
	if err := src.err(); err != nil {
		return Site{}, err
	}
	s.Entrances, s.Questions = append([]Entrance{}, s.Entrances...), append([]Question{}, s.Questions...) // [] in JSON, never null
	return s, nil
}

func (s Site) clone() Site {
	s.Entrances, s.Queues, s.Questions = slices.Clone(s.Entrances), slices.Clone(s.Queues), slices.Clone(s.Questions)
	s.Readers = slices.Clone(s.Readers)
	return s
}

// checkTemplates renders every template once, so that errors are found when the site is
// read and not when somebody submits a job.
func checkTemplates(src *source, s *Site) {
	if len(src.errors) > 0 {
		return
	}
	sample := map[string]string{"name": "job"}
	for _, q := range s.allQuestions("") {
		sample[q.Name] = q.sample()
	}
	for _, text := range append(slices.Clone(s.Job.Directives), s.Workdir) {
		if _, err := fill(text, sample); err != nil {
			src.addFileError("every {{.name}} needs a [question.name]", "the template %q cannot be filled: %v", text, err)
		}
	}
}

func (q *Question) sample() string {
	switch {
	case q.Default != "":
		return q.Default
	case q.Kind == AskChoice:
		return q.Choices[0]
	}
	return "1"
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
	all, others := slices.Clone(s.Questions), appQuestions(app)
	if !s.ownContainer() {
		others = append(softwareQuestions(), others...)
	}
	for _, q := range others {
		if app == ShellApp && q.Name == "container" {
			continue // a shell inside the job is outside of every container
		}
		if !slices.ContainsFunc(all, func(x Question) bool { return x.Name == q.Name }) {
			all = append(all, q)
		}
	}
	return all
}
