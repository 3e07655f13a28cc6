package jobtest

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A folder of samples has an index.tsv: one line per sample, with what the user reads in it
// ("facts"). CheckSamples compares that with what the program reads.

// sampleReader reads a sample as the program would. If the program never gets such an
// answer, why says so.
type sampleReader func(s Sample) (records []Record, why string)

// Record is one job, or one submission, that the program read in a sample.
type Record struct {
	ID string
	// Fact compares what the program read with want, which the user read. read is false for
	// a fact that the program does not use.
	Fact func(name, want string) (got string, same, read bool)
}

// Sample is a line of an index and its recorded answer.
type Sample struct {
	Capture
	version   string
	scheduler string
	Facts     []map[string]string // one per job
}

// sampleIndex is the name of the list in a folder of samples.
const sampleIndex = "index.tsv"

// CheckSamples compares the samples of one scheduler with their index: those of testdata/samples, or
// of the folder that TUNCTL_CAPTURES names.
func CheckSamples(t *testing.T, scheduler string, read sampleReader) {
	t.Helper()
	r := CompareSamples(cmp.Or(os.Getenv("TUNCTL_CAPTURES"), filepath.Join("testdata", "samples")), scheduler, read)
	for _, note := range r.Notes {
		t.Log(note)
	}
	for _, problem := range r.Problems {
		t.Error(problem)
	}
}

// Report is the result of comparing samples with their index.
type Report struct {
	scheduler string
	read      sampleReader

	Compared int // facts
	Notes    []string
	Problems []string
}

func (r *Report) notef(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

func (r *Report) problemf(format string, args ...any) {
	r.Problems = append(r.Problems, fmt.Sprintf(format, args...))
}

// CompareSamples compares the samples of one scheduler in every folder with an index, from root down.
func CompareSamples(root, scheduler string, read sampleReader) *Report {
	r := &Report{scheduler: scheduler, read: read}
	folders := foldersBelow(root)
	for _, folder := range folders {
		if _, err := os.Stat(filepath.Join(folder, sampleIndex)); err == nil {
			r.compareFolder(folder)
		}
	}
	if r.Compared == 0 {
		r.problemf("no fact was compared in %q: of %d folders, none has an %s with facts of %s", root, len(folders), sampleIndex, scheduler)
	}
	return r
}

func (r *Report) compareFolder(folder string) {
	before := r.Compared
	others, unused := map[string]int{}, map[string]int{}
	for _, s := range r.readIndex(folder) {
		if s.scheduler != r.scheduler {
			others[s.scheduler]++
			continue
		}
		records, why := r.read(s)
		if why != "" {
			unused[why]++
			continue
		}
		for _, facts := range s.Facts {
			r.compareFacts(s, facts, records)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(others)) {
		r.notef("%s: skipped %d samples of %q", folder, others[name], name)
	}
	for _, why := range slices.Sorted(maps.Keys(unused)) {
		r.notef("%s: skipped %d samples: %s", folder, unused[why], why)
	}
	r.notef("%s: %d facts compared", folder, r.Compared-before)
}

// compareFacts compares the facts of one job with its record.
func (r *Report) compareFacts(s Sample, facts map[string]string, records []Record) {
	if len(facts) == 0 {
		return
	}
	record, found := recordOf(facts, records, len(s.Facts))
	if !found {
		r.Compared++
		r.problemf("%s: fact %q: expected %q, got no such record among %d", s.Name, "id", facts["id"], len(records))
		return
	}
	for _, name := range slices.Sorted(maps.Keys(facts)) {
		got, same, read := record.Fact(name, facts[name])
		if !read {
			continue
		}
		r.Compared++
		if !same {
			r.problemf("%s: fact %q: expected %q, got %q", s.Name, name, facts[name], got)
		}
	}
}

// recordOf is the record of the facts: the one with the same id, or the only one.
func recordOf(facts map[string]string, records []Record, jobs int) (Record, bool) {
	for _, r := range records {
		if r.ID == facts["id"] {
			return r, true
		}
	}
	if len(records) == 1 && jobs == 1 {
		return records[0], true
	}
	return Record{}, false
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
func (r *Report) readIndex(folder string) []Sample {
	index := filepath.Join(folder, sampleIndex)
	data, err := os.ReadFile(index)
	if err != nil {
		r.problemf("%v", err)
		return nil
	}
	columns := []string{"file", "command", "version", "facts", "source"}
	var samples []Sample
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

func readSample(folder string, row map[string]string) (Sample, error) {
	path, err := samplePath(folder, row["file"])
	if err != nil {
		return Sample{}, err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return Sample{}, err
	}
	facts, err := readFacts(row["facts"])
	if err != nil {
		return Sample{}, fmt.Errorf("facts of %q: %w", row["file"], err)
	}
	s := Sample{Capture: ParseCapture(path, data), version: row["version"], Facts: facts}
	s.Name, s.Command = path, cmp.Or(s.Command, row["command"])
	s.scheduler = schedulerOfSample(path, row["command"], row["version"], string(s.Result.Stdout))
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
	"sbatch": "slurm", "srun": "slurm", "salloc": "slurm", "squeue": "slurm", "scontrol": "slurm", "sacct": "slurm", "scancel": "slurm",
	"sinfo": "slurm", "sstat": "slurm", "sattach": "slurm", "slurm": "slurm",
	"qselect": "pbs", "pbsnodes": "pbs", "tracejob": "pbs", "qrls": "pbs", "checkjob": "pbs", "showq": "pbs",
	"qacct": "gridengine", "qhost": "gridengine", "qconf": "gridengine", "qmod": "gridengine",
	"bjobs": "lsf", "bsub": "lsf", "bkill": "lsf", "bhist": "lsf", "bqueues": "lsf",
	"condor_q": "htcondor", "condor_submit": "htcondor", "flux": "flux",
}

// sampleWords identify the scheduler in a path or a version.
var sampleWords = []struct{ word, scheduler string }{
	{"slurm", "slurm"},
	{"torque", "pbs"},
	{"pbs", "pbs"},
	{"gridengine", "gridengine"},
	{"grid engine", "gridengine"},
	{"sge", "gridengine"},
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
		return "pbs"
	}
	return "unknown"
}

// OnlyText compares the message of a failure: the program reads its last line.
func OnlyText(said string) func(name, want string) (string, bool, bool) {
	return func(name, want string) (string, bool, bool) {
		return said, strings.Contains(want, said), name == "text"
	}
}

// Facts compares each of the facts that the program read with the same text.
func Facts(values map[string]string) func(name, want string) (string, bool, bool) {
	return func(name, want string) (string, bool, bool) {
		got, read := values[name]
		return got, got == want, read
	}
}
