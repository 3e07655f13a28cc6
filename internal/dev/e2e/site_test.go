package e2e

import (
	"regexp"
	"strings"
	"testing"

	"tunctl/configs"
	"tunctl/internal/dev/real"
)

// labWords turn a site's job into one that the lab has room for: what stands on
// sbatch's command line wins over the script.
var labWords = []string{"--partition=normal", "--account=proj1", "--qos=normal", "--mem=300M", "--cpus-per-task=1", "--time=20:00"}

// labAnswers answer what a site wants to know, in words that exist in the lab.
var labAnswers = map[string]string{
	"account": "proj1", "partition": "normal", "folder": "/home/hpcuser", "image": "/none.sqsh", "modules": "", "gpus": "0", "cpus": "1",
	"qos": "normal",
}

// elsewhere matches directives with names that only the site's own Slurm knows, and the
// job's name.
var elsewhere = regexp.MustCompile(`(?m)^#SBATCH --(partition|qos|constraint|clusters|reservation|job-name)=.*\n`)

func TestRealSlurmTakesEverySitesJob(t *testing.T) {
	real.Need(t, "ssh", "slurm")
	t.Parallel()
	lab := real.Start(t)
	sites, err := configs.LoadSites("")
	if err != nil {
		t.Fatal(err)
	}
	tried := map[string]bool{}
	for _, site := range sites {
		if site.Scheduler != "slurm" {
			continue
		}
		for _, app := range configs.BuiltinJobs() {
			job := configs.Job{App: app, Name: "nb", Site: site, Answers: map[string]string{}, Command: "true {port}"}
			for _, q := range site.Questions {
				answer, ok := labAnswers[q.Name]
				switch {
				case ok:
					job.Answers[q.Name] = answer
				case q.Required && q.Default == "":
					job.Answers[q.Name] = "x"
				}
			}
			script, err := job.Script()
			if err != nil {
				t.Errorf("%s: %v", site.Name, err)
				continue
			}
			// Its own directives, but for what the lab is too small for. Many sites have the same.
			text := elsewhere.ReplaceAllString(string(script), "")
			directives, _, _ := strings.Cut(text, "\n#\n")
			if tried[directives] {
				continue
			}
			tried[directives] = true
			if _, err := lab.As("hpcuser", "sh", "-c", `printf '%s' "$1" | sbatch --test-only --mem=300M --cpus-per-task=1`, "sh", text); err != nil {
				t.Errorf("%s, %s: %v", site.Name, app, err)
			}
		}
	}
}

// siteConfig is a session with the job of a site, on the lab's own host.
func siteConfig(site string, answers ...string) string {
	var words []string
	for _, w := range labWords {
		words = append(words, `"`+w+`"`)
	}
	return "[host.lab-login]\nsite = \"" + site + "\"\n\n[session.jupyter]\nhost = \"lab-login\"\nlocal = PORT\nsubmit = \"builtin:jupyter\"\n" +
		"args = [" + strings.Join(words, ", ") + "]\nwith = { " + strings.Join(answers, ", ") + " }\n"
}

// tokenIsPrivate looks for the token where others could see it.
func tokenIsPrivate(t *testing.T, l *laptop, id, token string) {
	t.Helper()
	log := l.status().Job.Log
	if !strings.Contains(log, "/.tunctl/logs/") {
		t.Errorf("the log is %s", log)
	}
	for what, argv := range map[string][]string{
		"a command line": {"sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '"},
		"the log":        {"cat", log},
		"the job":        {"sh", "-c", "scontrol show job " + id + " || qstat -j " + id},
	} {
		for _, node := range []string{"cn01", "cn02"} {
			text, err := l.lab.Exec(node, argv...)
			if err != nil && text == "" {
				t.Errorf("%s: %v", what, err)
			}
			if strings.Contains(text, token) {
				t.Errorf("the token stands in %s on %s", what, node)
			}
		}
	}
}
