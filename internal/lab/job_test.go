package lab

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"tunctl/internal/dev/wait"

	"golang.org/x/crypto/ssh"
)

func TestTheBuiltInJobServesJupyterWhereThereIsOne(t *testing.T) {
	t.Parallel()
	if testing.Short() || !slices.ContainsFunc([]string{"lab", "notebook", "server"}, func(app string) bool {
		_, err := exec.LookPath("jupyter-" + app)
		return err == nil
	}) {
		t.Skip("no Jupyter here")
	}
	c := practice(t, withPage(t, Options{Jupyter: true}))
	client := dial(t, c)
	id := submitPage(t, c, client)
	log := filepath.Join(c.Home(), "jupyterlab."+id+".log")
	notebookURL := regexp.MustCompile(`http://(cn\d+):(\d+)/(?:lab|tree)?\?token=(\w+)`)
	var url []string
	wait.Until(t, "Jupyter's URL in the log", func() bool {
		text, _ := os.ReadFile(log)
		url = notebookURL.FindStringSubmatch(string(text))
		return url != nil
	})
	wait.Until(t, "the server listens, which JupyterLab 4 does after that line", func() bool {
		conn, err := client.Dial("tcp", net.JoinHostPort(url[1], url[2]))
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	if status, body := get(t, client, url, "/api/status?token="+url[3]); status != 200 || !strings.Contains(body, "kernels") {
		t.Errorf("status %d: %s", status, body)
	}
}

func submitPage(t *testing.T, c *Cluster, client *ssh.Client) string {
	t.Helper()
	command := "sbatch --parsable"
	if c.Dialect() == PBS {
		command = "qsub"
	}
	a := run(t, client, command, JobScript(c.Dialect()))
	if a.status != 0 {
		t.Fatalf("%s: %+v", command, a)
	}
	return strings.TrimSpace(a.stdout)
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// get fetches a page from a compute node through the login node.
func get(t *testing.T, client *ssh.Client, url []string, path string) (int, string) {
	t.Helper()
	conn, err := client.Dial("tcp", net.JoinHostPort(url[1], url[2]))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_, _ = io.WriteString(conn, "GET "+path+" HTTP/1.1\r\nHost: localhost:8888\r\nConnection: close\r\n\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func TestAJobThatOverstaysIsEnded(t *testing.T) {
	t.Parallel()
	for dialect, test := range map[string]struct{ submit, log, words, show, want string }{
		Slurm: {
			"sbatch --wait -t 0:01 -o log", "log", `DUE TO TIME LIMIT \*\*\*`,
			"sacct -X -n -P -o State,ExitCode; scontrol show job -o 1001 | grep -o 'JobState=[A-Z]* Reason=[A-Za-z]*'",
			"TIMEOUT|0:0\nJobState=TIMEOUT Reason=TimeLimit\n",
		},
		PBS: {
			"qsub -W block=true -l walltime=1 -j oe -o log", "log", `=>> PBS: job killed: walltime \d+ exceeded limit 1\n`,
			"qstat -x -f 1001 | grep -o 'Exit_status = .*'", "Exit_status = -29\n",
		},
	} {
		t.Run(dialect, func(t *testing.T) {
			c := practice(t, Options{Dialect: dialect})
			client := dial(t, c)
			run(t, client, test.submit, "#!/bin/sh\nexec sleep 600\n")
			wait.Until(t, "the job's end", func() bool { return c.Jobs()[0].Over() })
			if text := readFile(t, filepath.Join(c.Home(), test.log)); !regexp.MustCompile(test.words).MatchString(text) {
				t.Errorf("the log says %q", text)
			}
			if a := run(t, client, test.show, ""); a.stdout != test.want {
				t.Errorf("%s\n got %+v\nwant %q", test.show, a, test.want)
			}
		})
	}
}

func TestPBSOutputStaysOnTheNodeUntilTheEndUnlessKept(t *testing.T) {
	t.Parallel()
	const script = "#!/bin/sh\necho out\necho err >&2\ntouch started\nread -r word <go\n"
	for _, test := range []struct {
		options     string
		whileItRuns bool
		files       map[string]string
	}{
		{"-N x -j oe", false, map[string]string{"work/x.o1001": "out\nerr\n"}},
		{"-N x", false, map[string]string{"work/x.o1001": "out\n", "work/x.e1001": "err\n"}},
		{"-N x -k oed -j oe", true, map[string]string{"work/x.o1001": "out\nerr\n"}},
		{"-N x -k oe -j oe", true, map[string]string{"x.o1001": "out\nerr\n"}},
		{"-N x -j oe -o logs/", false, map[string]string{"work/logs/1001.practice.OU": "out\nerr\n"}},
	} {
		t.Run(test.options, func(t *testing.T) {
			c := practice(t, Options{Dialect: PBS})
			client := dial(t, c)
			run(t, client, "mkfifo go; mkdir -p work/logs; cd work; cat >job; qsub "+test.options+" job", script)
			wait.Until(t, "the job's start", func() bool { return exists(filepath.Join(c.Home(), "started")) })
			for name := range test.files {
				if exists(filepath.Join(c.Home(), name)) != test.whileItRuns {
					t.Errorf("while the job runs, %s is there: %v", name, !test.whileItRuns)
				}
			}
			run(t, client, "echo go >go", "")
			wait.Until(t, "the job's end", func() bool { return c.Jobs()[0].State == stateCompleted })
			for name, want := range test.files {
				if text := readFile(t, filepath.Join(c.Home(), name)); text != want {
					t.Errorf("%s has %q, want %q", name, text, want)
				}
			}
		})
	}
}
