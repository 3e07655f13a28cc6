package jobwatch

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
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
	add(f.Reach != "", "reach="+string(f.Reach))
	add(f.NeedsNode, "node")
	add(f.Ended, "ended")
	add(f.Low, "low")
	add(f.Doubt, "doubt")
	add(f.Link != "", "link="+f.Link)
	return strings.Join(words, " ")
}

// detectBytes reads a whole log.
func detectBytes(t testing.TB, log []byte, chunk int) Finding {
	t.Helper()
	d := NewDetector("")
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
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var heads []string
	var rows []map[string]string
	for lines := bufio.NewScanner(f); lines.Scan(); {
		cells := strings.Split(lines.Text(), "\t")
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
