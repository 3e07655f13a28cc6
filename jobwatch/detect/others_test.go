package detect

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

const (
	boardLine = "TensorBoard 2.16.2 at http://localhost:6006/ (Press CTRL+C to quit)\n"
	daskLines = "distributed.scheduler - INFO -   Scheduler at:   tcp://10.201.0.91:8786\n" +
		"distributed.scheduler - INFO -   dashboard at:                     :8787\n"
	rayLine = "2024-05-02 10:11:12,131 INFO worker.py:1752 -- Started a local Ray instance. View the dashboard at http://127.0.0.1:8265\n"
)

// others writes the other pages of a finding, one a line.
func others(f Finding) string {
	var list []string
	for _, o := range f.Others {
		list = append(list, fmt.Sprintf("%s %s%s %s", o.Name, o.Address(), o.Path, o.Reach))
	}
	return strings.Join(list, "\n")
}

func TestOtherPagesOfALogAreNamed(t *testing.T) {
	t.Parallel()
	second := strings.ReplaceAll(banner, "8888", "8889")
	for name, tt := range map[string]struct{ log, want string }{
		"none":           {banner, ""},
		"dashboards":     {boardLine + banner + rayLine + daskLines, "tensorboard localhost:6006/ node\ndask 10.201.0.91:8787/status login\nray 127.0.0.1:8265/ node"},
		"two notebooks":  {banner + second, "jupyter-2 n003:8888/lab login"},
		"one on a node":  {strings.NewReplacer("n003", "n004", "token=0123", "token=4567").Replace(banner) + banner, "jupyter-2 n004:8888/lab login"},
		"two boards":     {banner + boardLine + strings.ReplaceAll(boardLine, "6006", "6007"), "tensorboard localhost:6006/ node\ntensorboard-2 localhost:6007/ node"},
		"said twice":     {banner + boardLine + boardLine + banner, "tensorboard localhost:6006/ node"},
		"started again":  {banner + second + banner, "jupyter-2 n003:8889/lab login"},
		"a web server":   {banner + "INFO:     Uvicorn running on http://0.0.0.0:8000 (Press CTRL+C to quit)\n", "http 0.0.0.0:8000/ login"},
		"without a page": {banner + "ssh -L 6006:n003:6006 narval # for TensorBoard\n", ""},
		"vnc":            {banner + "New 'n003:1 (ann)' desktop is n003:1\n", ""},
		"an ended one":   {banner + daskLines + "distributed.scheduler - INFO - End scheduler\n", ""},
		"an ended first": {banner + "[C 2024-05-02 11:00:00.000 ServerApp] received signal 15, stopping\n" + second, ""},
		"an ended job":   {boardLine + banner + second + "slurmstepd: error: *** JOB 7 ON n003 CANCELLED AT 2024-05-02T11:00:00 ***\n", ""},
		"after a requeue": {
			boardLine + "slurmstepd: error: *** JOB 7 ON n003 CANCELLED AT 2024-05-02T11:00:00 DUE TO JOB REQUEUE ***\n" + banner + rayLine, "ray 127.0.0.1:8265/ node",
		},
	} {
		if got := others(detect(t, tt.log)); got != tt.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, tt.want)
		}
	}
}

func TestOtherPagesAreFoundBesideTheRequestedApp(t *testing.T) {
	t.Parallel()
	for only, want := range map[string]string{
		"jupyter":     "tensorboard localhost:6006/ node",
		"tensorboard": "jupyter n003:8888/lab login",
		"rstudio":     "jupyter n003:8888/lab login\ntensorboard localhost:6006/ node",
	} {
		d := New(only)
		fmt.Fprint(d, banner, boardLine)
		if f := d.Finding(); others(f) != want || f.Found == (only == "rstudio") {
			t.Errorf("looking for %s, found %t:\n%s\nwant\n%s", only, f.Found, others(f), want)
		}
		d.Stream("").Reset()
		if f := d.Finding(); others(f) != "" {
			t.Errorf("looking for %s, after the log was replaced: %s", only, others(f))
		}
	}
}

func TestOtherPagesAreBounded(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	for i := range 3 * maxOthers {
		log.WriteString(strings.ReplaceAll(banner, "8888", fmt.Sprint(9000+i)))
	}
	f := detect(t, log.String()+boardLine+rayLine)
	if len(f.Others) != maxOthers || f.Port != 9000+3*maxOthers-1 {
		t.Errorf("%d other pages beside port %d", len(f.Others), f.Port)
	}
}

func TestTheTokenOfAnOtherPageIsSecret(t *testing.T) {
	t.Parallel()
	const token = "fedcba9876543210fedcba9876543210"
	f := detect(t, strings.NewReplacer("8888", "8889", "0123456789abcdef0123456789abcdef0123456789abcdef", token).Replace(banner)+banner)
	if len(f.Others) != 1 || f.Others[0].Token.Reveal() != token {
		t.Fatalf("the other pages are %q", others(f))
	}
	var out bytes.Buffer
	f.Explain(&out, false)
	for _, text := range []string{out.String(), fmt.Sprintf("%+v", f), fmt.Sprintf("%+v", f.Report(false))} {
		if strings.Contains(text, token) {
			t.Errorf("the token shows in %s", text)
		}
	}
	if got := f.Report(true).Endpoints[0]; got.Token != token || got.Name != "jupyter-2" {
		t.Errorf("asked for secrets, got %+v", got)
	}
}

func TestThePasswordOfALoginPageIsSecret(t *testing.T) {
	t.Parallel()
	const password = "Zm9vYmFyYmF6"
	log := "RStudio Server is running on port 8787\nlog in to RStudio Server using the following credentials:\n\n   user: ann\n   password: " + password + "\n"
	f := detect(t, log)
	if f.User != "ann" || f.Password.Reveal() != password {
		t.Fatalf("found %+v", f.Report(true))
	}
	beside := detect(t, log+banner).Others
	if len(beside) != 1 || beside[0].Password.Reveal() != password {
		t.Errorf("beside a notebook: %+v", beside)
	}
	var out bytes.Buffer
	f.Explain(&out, false)
	for _, text := range []string{out.String(), fmt.Sprintf("%+v", f), fmt.Sprintf("%+v", f.Report(false))} {
		if strings.Contains(text, password) {
			t.Errorf("the password shows in %s", text)
		}
	}
	d := New("rstudio")
	fmt.Fprint(d, log)
	d.Stream("").Reset()
	fmt.Fprint(d, "RStudio Server is running on port 8788\n")
	if f := d.Finding(); f.Port != 8788 || !f.Password.IsZero() {
		t.Errorf("after the log was replaced: %+v", f.Report(true))
	}
}

func TestWordsOfAnyProgramEndNoServerThatDidNotAnnounceItself(t *testing.T) {
	t.Parallel()
	const hint = "ssh -N -L 8787:n003:43211 ann@login.cluster.example\n"
	for _, line := range []string{"Exiting...\n", "  Exiting...\nmsg=\"Listening on\n", "user: ann\npassword: x\n"} {
		if f := detect(t, hint+line); f.Ended || f.App != "" || f.Port != 43211 || !f.Password.IsZero() {
			t.Errorf("%q: %s %s", line, describe(f), f.Why)
		}
	}
}
