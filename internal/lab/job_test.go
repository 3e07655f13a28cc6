package lab

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
)

var pageURL = regexp.MustCompile(`http://(cn\d+):(\d+)(/lab\?token=\S+)`)

func TestTheBuiltInJobServesItsPageThroughTheLoginNode(t *testing.T) {
	for _, dialect := range []string{Slurm, PBS} {
		for _, place := range []string{"in its own process", "in this process"} {
			t.Run(dialect+" "+place, func(t *testing.T) {
				o := Options{Dialect: dialect}
				if place == "in its own process" {
					o = withPage(t, o)
				}
				c := practice(t, o)
				client := dial(t, c)
				id := submitPage(t, c, client)
				log := filepath.Join(c.Home(), "jupyterlab."+id+".log")
				url := waitForURL(t, log)

				if line := "JupyterLab will listen on: " + url[1] + ":" + url[2] + "\n"; !strings.HasPrefix(readFile(t, log), line) {
					t.Errorf("the log starts with %q, want %q", readFile(t, log), line)
				}
				if status, _ := get(t, client, url, "/api/status"); status != http.StatusForbidden {
					t.Errorf("without the token: status %d, want 403", status)
				}
				status, body := get(t, client, url, url[3])
				if want := "This page travelled from a practice job on <code>" + url[1]; status != 200 || !strings.Contains(body, want) {
					t.Errorf("got %d and a page without %q:\n%s", status, want, body)
				}
			})
		}
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

func waitForURL(t *testing.T, log string) []string {
	t.Helper()
	var url []string
	until(t, "the page's URL in the log", func() bool {
		text, _ := os.ReadFile(log)
		url = pageURL.FindStringSubmatch(string(text))
		return url != nil
	})
	return url
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
	defer conn.Close()
	io.WriteString(conn, "GET "+path+" HTTP/1.1\r\nHost: localhost:8888\r\nConnection: close\r\n\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}
