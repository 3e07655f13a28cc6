package detect

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// describe writes a finding as testdata/logs/index.tsv does.
func describe(f Finding) string {
	if !f.Found {
		return "nothing"
	}
	where := fmt.Sprintf("%s://%s:%d%s", f.Scheme, f.Host, f.Port, f.Path)
	if f.Socket != "" {
		where = "socket=" + f.Socket + " " + f.Path
	}
	words := []string{f.App, where}
	add := func(ok bool, word string) {
		if ok {
			words = append(words, word)
		}
	}
	add(!f.Token.IsZero(), "token="+f.Token.Reveal())
	add(!f.Password.IsZero(), "login="+f.User+":"+f.Password.Reveal())
	add(f.Reach != "", "reach="+string(f.Reach))
	add(f.NeedsNode, "node")
	add(f.Ended, "ended")
	add(f.Guess, "low")
	add(f.Doubt, "doubt")
	add(f.Link != "", "link="+f.Link)
	return strings.Join(words, " ")
}

// detectBytes reads a whole log.
func detectBytes(t testing.TB, log []byte, chunk int) Finding {
	t.Helper()
	d := New("")
	for len(log) > 0 {
		n := min(chunk, len(log))
		if _, err := d.Write(log[:n]); err != nil {
			t.Fatal(err)
		}
		log = log[n:]
	}
	d.Flush()
	return d.Finding()
}

// readTable reads a file of tab-separated rows under a heading.
func readTable(t testing.TB, path string) []map[string]string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var heads []string
	var rows []map[string]string
	for line := range strings.Lines(string(data)) {
		cells := strings.Split(strings.TrimRight(line, "\r\n"), "\t")
		if heads == nil {
			heads = cells
			continue
		}
		row := map[string]string{}
		for i, cell := range cells {
			row[heads[i]] = cell
		}
		rows = append(rows, row)
	}
	return rows
}

func TestEverySampleIsReadRight(t *testing.T) {
	t.Parallel()
	for _, row := range readTable(t, "testdata/logs/index.tsv") {
		t.Run(row["file"], func(t *testing.T) {
			t.Parallel()
			log, err := os.ReadFile(filepath.Join("testdata/logs", row["file"]))
			if err != nil {
				t.Fatal(err)
			}
			for _, chunk := range []int{1 << 20, 7, 1} {
				if f := detectBytes(t, log, chunk); describe(f) != row["want"] {
					t.Errorf("in chunks of %d:\n got %s\nwant %s\n why %s", chunk, describe(f), row["want"], f.Why)
				}
			}
		})
	}
}

// TestEveryLogOfTheCorpusIsReadRight judges a folder of real logs with an
// index.tsv, given as TUNCTL_CORPUS.
func TestEveryLogOfTheCorpusIsReadRight(t *testing.T) {
	t.Parallel()
	folder := os.Getenv("TUNCTL_CORPUS")
	if folder == "" {
		t.Skip("TUNCTL_CORPUS is not set")
	}
	for _, row := range readTable(t, filepath.Join(folder, "index.tsv")) {
		t.Run(row["file"], func(t *testing.T) {
			t.Parallel()
			log, err := os.ReadFile(filepath.Join(folder, row["file"]))
			if err != nil {
				t.Fatal(err)
			}
			f := detectBytes(t, log, 4096)
			for _, complaint := range judgeCorpus(row, f.Report(true)) {
				t.Errorf("%s\nwhy: %s", complaint, f.Why)
			}
		})
	}
}

// What a careful reader accepts in place of what the corpus's index says, by the
// number of the log.
var (
	corpusLenient = map[string]string{
		"001": "host", "002": "host", "008": "port", "018": "host port", "025": "host", "031": "host", "032": "host",
		"039": "host", "060": "host port", "061": "host port", "067": "host", "078": "host", "079": "host",
		"082": "found", "083": "found", "084": "found port", "203": "host port", "210": "port",
	}
	corpusUnknowable = []string{
		"0.0.0.0", "127.0.0.1", "localhost", "hostname", "[::]", "::", "::1", "[::1]", "*", "", "[...]",
		"[all ip addresses on your system]",
	}
	corpusEnded = []string{"012", "019", "212", "213"}
	corpusHere  = []string{"031", "032", "078", "079"}
)

// judgeCorpus compares a report with a row of the corpus's index.
func judgeCorpus(row map[string]string, got Report) []string {
	number := row["file"][:3]
	may := func(what string) bool { return slices.Contains(strings.Fields(corpusLenient[number]), what) }
	if row["positive"] == "0" {
		if got.Found && !got.Ended {
			return []string{fmt.Sprintf("found %s:%d where there is nothing", got.Host, got.Port)}
		}
		return nil
	}
	if !got.Found {
		if may("found") {
			return nil
		}
		return []string{"found nothing"}
	}
	var bad []string
	differs := func(what, got, want string) {
		if got != want {
			bad = append(bad, fmt.Sprintf("%s %q, want %q", what, got, want))
		}
	}
	if bare := func(s string) string { return strings.ToLower(strings.Trim(s, "[]")) }; !may("host") &&
		(!got.NeedsNode || !slices.Contains(corpusUnknowable, row["expect_host"])) {
		differs("host", bare(got.Host), bare(row["expect_host"]))
	}
	if !may("port") {
		want, _ := strconv.Atoi(row["expect_port"])
		differs("port", strconv.Itoa(got.Port), strconv.Itoa(want))
	}
	differs("token", got.Token, row["expect_token"])
	if row["expect_scheme"] == "http+unix" {
		differs("socket", got.Socket, row["expect_host"])
	} else if row["kind"] == appJupyter && row["expect_scheme"] != "" {
		differs("scheme", got.Scheme, row["expect_scheme"])
	}
	path := strings.TrimRight(row["expect_path"], "/")
	if path != "" && path != "/lab" && path != "/tree" && !strings.HasPrefix(got.Path, path) {
		differs("path", got.Path, path)
	}
	if slices.Contains(corpusHere, number) {
		differs("reach", string(got.Reach), "here")
	}
	if slices.Contains(corpusEnded, number) && !got.Ended {
		bad = append(bad, "not seen to have ended")
	}
	return bad
}
