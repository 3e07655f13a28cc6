package jobwatch

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A folder of samples has an index.tsv: one line per sample, with what a person reads in it
// ("facts"). TestPublicCapturesMatchTheirIndex compares that with what the program reads.
//
// To add a scheduler, add a line to sampleReaders.

// sampleReaders are the schedulers whose samples can be read.
var sampleReaders = map[string]sampleReader{
	Slurm: readSlurmSample,
	PBS:   readPBSSample,

	GridEngine: readGridEngineSample,
}

// sampleReader reads a sample as the program would. If the program never gets such an
// answer, why says so.
type sampleReader func(s sample) (records []sampleRecord, why string)

// sampleRecord is one job, or one submission, that the program read in a sample.
type sampleRecord struct {
	id string
	// fact compares what the program read with want, which a person read. read is false for
	// a fact that the program does not use.
	fact func(name, want string) (got string, same, read bool)
}

// sample is a line of an index and its recorded answer.
type sample struct {
	capture
	version   string
	scheduler string
	facts     []map[string]string // one per job
}

// sampleIndex is the name of the list in a folder of samples.
const sampleIndex = "index.tsv"

func TestPublicCapturesMatchTheirIndex(t *testing.T) {
	r := compareSamples(cmp.Or(os.Getenv("TUNCTL_CAPTURES"), filepath.Join("testdata", "samples")))
	for _, note := range r.notes {
		t.Log(note)
	}
	for _, problem := range r.problems {
		t.Error(problem)
	}
}

// sampleReport is the result of comparing samples with their index.
type sampleReport struct {
	compared int // facts
	notes    []string
	problems []string
}

func (r *sampleReport) notef(format string, args ...any) {
	r.notes = append(r.notes, fmt.Sprintf(format, args...))
}

func (r *sampleReport) problemf(format string, args ...any) {
	r.problems = append(r.problems, fmt.Sprintf(format, args...))
}

// compareSamples compares the samples of every folder with an index, from root down.
func compareSamples(root string) *sampleReport {
	r := &sampleReport{}
	folders := foldersBelow(root)
	for _, folder := range folders {
		if _, err := os.Stat(filepath.Join(folder, sampleIndex)); err == nil {
			r.compareFolder(folder)
		}
	}
	if r.compared == 0 {
		r.problemf("no fact was compared in %q: of %d folders, none has an %s with facts of a supported scheduler", root, len(folders), sampleIndex)
	}
	return r
}

func (r *sampleReport) compareFolder(folder string) {
	before := r.compared
	unsupported, unused := map[string]int{}, map[string]int{}
	for _, s := range r.readIndex(folder) {
		read, supported := sampleReaders[s.scheduler]
		if !supported {
			unsupported[s.scheduler]++
			continue
		}
		records, why := read(s)
		if why != "" {
			unused[why]++
			continue
		}
		for _, facts := range s.facts {
			r.compareFacts(s, facts, records)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(unsupported)) {
		r.notef("%s: skipped %d samples of %q, which is not supported", folder, unsupported[name], name)
	}
	for _, why := range slices.Sorted(maps.Keys(unused)) {
		r.notef("%s: skipped %d samples: %s", folder, unused[why], why)
	}
	r.notef("%s: %d facts compared", folder, r.compared-before)
}

// compareFacts compares the facts of one job with its record.
func (r *sampleReport) compareFacts(s sample, facts map[string]string, records []sampleRecord) {
	if len(facts) == 0 {
		return
	}
	record, found := recordOf(facts, records, len(s.facts))
	if !found {
		r.compared++
		r.problemf("%s: fact %q: expected %q, got no such record among %d", s.name, "id", facts["id"], len(records))
		return
	}
	for _, name := range slices.Sorted(maps.Keys(facts)) {
		got, same, read := record.fact(name, facts[name])
		if !read {
			continue
		}
		r.compared++
		if !same {
			r.problemf("%s: fact %q: expected %q, got %q", s.name, name, facts[name], got)
		}
	}
}

// recordOf is the record of the facts: the one with the same id, or the only one.
func recordOf(facts map[string]string, records []sampleRecord, jobs int) (sampleRecord, bool) {
	for _, r := range records {
		if r.id == facts["id"] {
			return r, true
		}
	}
	if len(records) == 1 && jobs == 1 {
		return records[0], true
	}
	return sampleRecord{}, false
}

// foldersBelow is root and every folder below it, also by links, each once.
func foldersBelow(root string) []string {
	seen := map[string]bool{}
	var folders []string
	var walk func(folder string)
	walk = func(folder string) {
		place, err := filepath.EvalSymlinks(folder)
		if err != nil || seen[place] {
			return
		}
		seen[place] = true
		entries, err := os.ReadDir(folder)
		if err != nil {
			return // a file, or not ours to read
		}
		folders = append(folders, folder)
		for _, e := range entries {
			walk(filepath.Join(folder, e.Name()))
		}
	}
	walk(root)
	return folders
}

// readIndex reads the samples of a folder.
func (r *sampleReport) readIndex(folder string) []sample {
	index := filepath.Join(folder, sampleIndex)
	data, err := os.ReadFile(index)
	if err != nil {
		r.problemf("%v", err)
		return nil
	}
	columns := []string{"file", "command", "version", "facts", "source"}
	var samples []sample
	for n, line := range strings.Split(string(data), "\n") {
		cells := strings.Split(strings.TrimRight(line, "\r"), "\t")
		switch {
		case n == 0 && slices.Contains(cells, "facts"):
			columns = cells
			continue
		case strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#"):
			continue
		}
		row := map[string]string{}
		for i, cell := range cells[:min(len(cells), len(columns))] {
			row[columns[i]] = cell
		}
		s, err := readSample(folder, row)
		if err != nil {
			r.problemf("%s, line %d: %v", index, n+1, err)
			continue
		}
		samples = append(samples, s)
	}
	return samples
}

func readSample(folder string, row map[string]string) (sample, error) {
	path, err := samplePath(folder, row["file"])
	if err != nil {
		return sample{}, err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return sample{}, err
	}
	facts, err := readFacts(row["facts"])
	if err != nil {
		return sample{}, fmt.Errorf("facts of %q: %w", row["file"], err)
	}
	s := sample{capture: parseCapture(path, data), version: row["version"], facts: facts}
	s.name, s.command = path, cmp.Or(s.command, row["command"])
	s.scheduler = schedulerOfSample(path, row["command"], row["version"], string(s.res.Stdout))
	return s, nil
}

// samplePath finds the file of a sample in its folder or in one below.
func samplePath(folder, file string) (string, error) {
	if file == "" {
		return "", errors.New("no file is named")
	}
	path := filepath.Join(folder, filepath.FromSlash(file))
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	below, err := filepath.Glob(filepath.Join(folder, "*", filepath.FromSlash(file)))
	if err != nil || len(below) == 0 {
		return "", fmt.Errorf("there is no file %q in the folder or in one below", file)
	}
	return below[0], nil
}

// parseCapture reads a recorded answer: its first line may have the command and the exit
// status, and a separate line precedes standard error.
func parseCapture(path string, data []byte) capture {
	c := capture{name: strings.TrimSuffix(filepath.Base(path), ".txt")}
	c.res.Stdout = data
	if m := captureHead.FindSubmatchIndex(data); m != nil {
		c.command = string(data[m[2]:m[3]])
		c.res.Exit, _ = strconv.Atoi(string(data[m[4]:m[5]]))
		c.res.Stdout = data[m[1]:]
	}
	if at := captureStderr.FindIndex(c.res.Stdout); at != nil {
		c.res.Stdout, c.res.Stderr = c.res.Stdout[:at[0]], c.res.Stdout[at[1]:]
	}
	return c
}

// readFacts reads the facts of a sample: those of one job, of a list of jobs (also as
// "jobs"), or a list of each fact ("ids", "states").
func readFacts(text string) ([]map[string]string, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, err
	}
	list, ok := value.([]any)
	if !ok {
		list = []any{value}
	}
	return listedFacts(list)
}

func listedFacts(list []any) ([]map[string]string, error) {
	var facts []map[string]string
	for _, entry := range list {
		object, ok := entry.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("%v is not an object", entry)
		}
		if jobs, ok := object["jobs"].([]any); ok {
			within, err := listedFacts(jobs)
			if err != nil {
				return nil, err
			}
			facts = append(facts, within...)
			continue
		}
		facts = append(facts, jobFacts(object)...)
	}
	return facts, nil
}

// jobFacts are the facts of an object's job, or of its jobs if it has lists.
func jobFacts(object map[string]any) []map[string]string {
	one, lists := map[string]string{}, map[string][]any{}
	for name, value := range object {
		switch v := value.(type) {
		case string:
			one[name] = v
		case json.Number, bool:
			one[name] = fmt.Sprint(v)
		case []any:
			lists[strings.TrimSuffix(name, "s")] = v
		}
	}
	ids := lists["id"]
	if len(ids) == 0 {
		return []map[string]string{one}
	}
	jobs := make([]map[string]string, len(ids))
	for i := range jobs {
		jobs[i] = map[string]string{}
		for name, values := range lists {
			if len(values) == len(ids) && fmt.Sprint(values[i]) != "" {
				jobs[i][name] = fmt.Sprint(values[i])
			}
		}
	}
	return jobs
}

// samplePrograms are the commands that only one scheduler has.
var samplePrograms = map[string]string{
	"sbatch": Slurm, "srun": Slurm, "salloc": Slurm, "squeue": Slurm, "scontrol": Slurm, "sacct": Slurm, "scancel": Slurm,
	"sinfo": Slurm, "sstat": Slurm, "sattach": Slurm, "slurm": Slurm,
	"qselect": PBS, "pbsnodes": PBS, "tracejob": PBS, "qrls": PBS, "checkjob": PBS, "showq": PBS,
	"qacct": GridEngine, "qhost": GridEngine, "qconf": GridEngine, "qmod": GridEngine,
	"bjobs": "lsf", "bsub": "lsf", "bkill": "lsf", "bhist": "lsf", "bqueues": "lsf",
	"condor_q": "htcondor", "condor_submit": "htcondor", "flux": "flux",
}

// sampleWords identify the scheduler in a path or a version.
var sampleWords = []struct{ word, scheduler string }{
	{"slurm", Slurm},
	{"torque", PBS},
	{"pbs", PBS},
	{"gridengine", GridEngine},
	{"grid engine", GridEngine},
	{"sge", GridEngine},
	{"lsf", "lsf"},
	{"condor", "htcondor"},
	{"flux", "flux"},
}

// schedulerOfSample finds the scheduler of a sample: by its command if only one scheduler has
// that, else by the nearest folder's name, the version, and the form.
func schedulerOfSample(path, command, version, out string) string {
	for program := range strings.FieldsSeq(command) {
		if s, ok := samplePrograms[filepath.Base(program)]; ok {
			return s
		}
		break
	}
	folder := filepath.Dir(path)
	for _, text := range []string{filepath.Base(folder), filepath.Base(filepath.Dir(folder)), version, filepath.Base(path)} {
		for _, w := range sampleWords {
			if strings.Contains(strings.ToLower(text), w.word) {
				return w.scheduler
			}
		}
	}
	if strings.Contains(out, "Job Id: ") {
		return PBS
	}
	return "unknown"
}

func TestSamplesAreFoundWhereverTheyLieAndAWrongFactIsNamed(t *testing.T) {
	root := t.TempDir()
	record := "# cmd: scontrol show job 7  # rc: 0\nJobId=7 JobName=nb UserId=u(1) GroupId=g(1) MCS_label=N/A JobState=RUNNING Reason=None NodeList=n1 Command=/a WorkDir=/w StdOut=/w/o\n"
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	line := func(file, command, facts string) string {
		return file + "\t" + command + "\t-\t" + facts + "\tmade up\n"
	}
	const head = "file\tcommand\tversion\tfacts\tsource\n"
	write("elsewhere/deep/a.txt", record)
	write("elsewhere/index.tsv", head+line("a.txt", "scontrol show job 7", `{"id": "7", "name": "nb", "stdout": "/w/o", "colour": "red"}`))
	write("in/other/b.txt", "whatever")
	write("in/other/index.tsv", head+line("b.txt", "bjobs", `{"ids": ["1"]}`)+line("gone.txt", "squeue", `{}`))
	write("in/wrong/c.txt", record)
	write("in/wrong/index.tsv", head+line("c.txt", "scontrol show job 7", `[{"id": "7", "state": "PENDING"}, {"id": "8"}]`))
	if err := os.Symlink(filepath.Join(root, "elsewhere"), filepath.Join(root, "in", "linked")); err != nil {
		t.Skip("no links here: ", err)
	}
	r := compareSamples(filepath.Join(root, "in"))
	notes, problems := strings.Join(r.notes, "\n"), strings.Join(r.problems, "\n")
	if r.compared != 3+2+1 {
		t.Errorf("%d facts were compared:\n%s\n%s", r.compared, notes, problems)
	}
	for _, want := range []string{
		filepath.Join("wrong", "c.txt") + `: fact "state": expected "PENDING", got "running"`, `fact "id": expected "8", got no such record`, `line 3: there is no file "gone.txt"`,
	} {
		if !strings.Contains(problems, want) {
			t.Errorf("the problems lack %q:\n%s", want, problems)
		}
	}
	if len(r.problems) != 3 || !strings.Contains(notes, `samples of "lsf", which is not supported`) {
		t.Errorf("%s\n%s", notes, problems)
	}
	if r := compareSamples(filepath.Join(root, "in", "other")); !strings.Contains(strings.Join(r.problems, "\n"), "no fact was compared") {
		t.Errorf("a folder without facts passes: %q", r.problems)
	}
}
