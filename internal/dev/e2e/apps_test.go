package e2e

import (
	"fmt"
	"strings"
	"testing"

	"tunctl/internal/api"
	"tunctl/internal/dev/real"
)

// appConfig is a session with a builtin job on the lab's own host.
func appConfig(job, more string) string {
	return `
[session.jupyter]
host   = "lab-login"
submit = "builtin:` + job + `"
local  = PORT
args   = ["--mem=800M", "--cpus-per-task=1", "--time=20:00"]
` + more
}

// TestTheBuiltinJobsServeTheirPagesOnRealParts brings each builtin job that can run here from
// `up` to a page in the browser, and looks at what it leaves.
func TestTheBuiltinJobsServeTheirPagesOnRealParts(t *testing.T) {
	real.Need(t, "ssh", "slurm", "apps", "browser")
	t.Parallel()
	t.Run("desktop", func(t *testing.T) {
		t.Parallel()
		l := newQuietLaptop(t, appConfig("desktop", ""))
		l.write(".config/openbox/autostart", `xterm -geometry 60x12 -e sh -c 'hostname; exec sleep 1000' &`)
		out, talk := l.run("up", "--no-open")
		t.Logf("what a person sees:\n%s%s", talk, out)
		s := l.status()
		address, _ := l.run("open", "--print", "jupyter")
		page, fragment, _ := strings.Cut(strings.TrimSpace(address), "#")
		password := strings.TrimPrefix(fragment, "password=")
		if len(password) != 8 || strings.Contains(page+out+talk, password) {
			t.Errorf("the address is %s, and up said %s", page, out+talk)
		}
		l.secretIsPrivate(s.Job.ID, password)

		tab := openTab(t)
		tab.untilLoaded(strings.TrimSpace(address), "noVNC is connected", `document.documentElement.classList.contains("noVNC_connected")`)
		tab.until("the window of xterm is drawn", `(() => {
			const c = document.querySelector("canvas"), d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
			let white = 0;
			for (let i = 0; i < d.length; i += 4) if (d[i] > 250 && d[i+1] > 250 && d[i+2] > 250) white++;
			return white > 20000;
		})()`)
		tab.picture(artifact(t, "desktop.png"))
		l.endsCleanly(s)
	})
	t.Run("command", func(t *testing.T) {
		t.Parallel()
		l := newQuietLaptop(t, appConfig("command", `command = '''R --no-echo -e 'shiny::runApp("~/shiny", host = "{host}", port = {port})' '''`))
		l.write("shiny/app.R", `library(shiny)
shinyApp(fluidPage(titlePanel("Shiny in a job"), textInput("name", "Name", "ann"), textOutput("greeting")),
	function(input, output) output$greeting <- renderText(paste("Hello", input$name, "from", Sys.info()[["nodename"]])))
`)
		out, talk := l.run("up", "--no-open")
		t.Logf("what a person sees:\n%s%s", talk, out)
		s := l.status()
		if s.Endpoint.Exposure != api.ExposureNode || s.Endpoint.Reach != api.ReachNode || s.Endpoint.Host != "127.0.0.1" {
			t.Errorf("the page is at %+v", *s.Endpoint)
		}
		if want := "other users who are on " + s.Job.Node + " can reach it"; !strings.Contains(talk, want) {
			t.Errorf("up does not say %q", want)
		}
		tab := openTab(t)
		tab.navigate(strings.TrimSpace(out))
		tab.until("R has answered over the websocket", fmt.Sprintf(`document.body.innerText.includes("Hello ann from %s")`, s.Job.Node))
		tab.picture(artifact(t, "shiny.png"))
		l.endsCleanly(s)
	})
	t.Run("a command on all addresses", func(t *testing.T) {
		t.Parallel()
		l := newQuietLaptop(t, appConfig("command", `command = "python3 -m http.server {port}"`))
		_, talk := l.run("up", "--no-open")
		if s := l.status(); s.Endpoint.Exposure != api.ExposureNetwork || !strings.Contains(talk, "everyone on the cluster's network can reach it") {
			t.Errorf("the page is at %+v, and up said:\n%s", *s.Endpoint, talk)
		}
		l.run("down", "--cancel")
	})
}

// write writes a file in the home folder on the cluster.
func (l *laptop) write(path, text string) {
	l.t.Helper()
	if _, err := l.lab.As("hpcuser", "sh", "-c", `mkdir -p "$(dirname "$1")" && printf '%s\n' "$2" >"$1"`, "sh", path, text); err != nil {
		l.t.Fatal(err)
	}
}

// secretIsPrivate looks for a secret where others could see it, and in the environments that
// the job's processes hand on.
func (l *laptop) secretIsPrivate(job, secret string) {
	l.t.Helper()
	tokenIsPrivate(l.t, l, job, secret)
	for _, node := range []string{"cn01", "cn02"} {
		if text, _ := l.lab.Exec(node, "sh", "-c", "cat /proc/[0-9]*/environ"); strings.Contains(text, secret) {
			l.t.Errorf("the password stands in an environment on %s", node)
		}
	}
}

// endsCleanly cancels the session's job, and looks for its programs and files.
func (l *laptop) endsCleanly(s api.Session) {
	l.t.Helper()
	l.run("down", "--cancel")
	l.lab.WaitJob(s.Job.ID, "CANCELLED", "COMPLETED", "")
	const gone = `for i in $(seq 1200); do
	left=$(ls -d /home/hpcuser/.tunctl/job.$1 2>/dev/null; for p in /proc/[0-9]*; do
		tr '\0' '\n' <"$p/environ" 2>/dev/null | grep -qx "SLURM_JOB_ID=$1" && tr '\0' ' ' <"$p/cmdline"
	done)
	[ -n "$left" ] || exit 0
	sleep 0.1
done
echo "$left"`
	left, err := l.lab.Exec(s.Job.Node, "sh", "-c", gone, "sh", s.Job.ID)
	if err != nil || left != "" {
		l.t.Errorf("job %s leaves: %v\n%s", s.Job.ID, err, left)
	}
}
