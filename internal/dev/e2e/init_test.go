//go:build unix

package e2e

import (
	"strings"
	"testing"

	"tunctl/internal/dev/ptytest"
	"tunctl/internal/dev/real"
)

// maxAnswers is how many answers the user gives on the way from an unknown cluster to a page.
const maxAnswers = 4

// interview is a `tunctl init` at a terminal, with its answers counted.
type interview struct {
	*ptytest.Program
	t       *testing.T
	answers int
}

// init runs `tunctl init` with words.
func (l *laptop) init(words ...string) *interview {
	return &interview{Program: ptytest.Start(l.t, l.command(append([]string{"init"}, words...)...)), t: l.t}
}

// answer waits for a question, and types the answer.
func (i *interview) answer(question, text string) {
	i.t.Helper()
	i.Expect(question)
	i.Answer(text)
	i.answers++
}

// finish waits for the end, and reports too many answers.
func (i *interview) finish() {
	i.t.Helper()
	i.Expect("Next: tunctl up jupyter")
	code, screen := i.End()
	i.t.Logf("what a person sees:\n%s", strings.ReplaceAll(screen, "\r", ""))
	if code != 0 || i.answers > maxAnswers {
		i.t.Errorf("exit code %d after %d answers", code, i.answers)
	}
}

func TestInitLeadsFromAnUnknownSlurmToANotebookInFourAnswers(t *testing.T) {
	real.Need(t, "ssh", "slurm", "jupyter")
	t.Parallel()
	l := newLaptop(t, "") // a lab of its own: a job of another test could have the same name
	i := l.init()
	i.answer("Which cluster?", "lab-login")
	i.Expect("connected to lab-login")
	i.Expect("1) ~/jupyter.sh")
	i.answer("3) /usr/bin/jupyter", "3")
	i.Expect("2) low")
	i.answer("A number, or any other answer [1]: ", "")
	i.Expect("memory = 2000M: the largest node there has 4000 MB")
	i.Expect("the scheduler would accept the job")
	i.finish()
	l.run("up", "--no-open")
	base, token := l.page()
	answersWithToken(t, base.JoinPath("jupyter"), token)
	l.run("down", "--cancel")
}
