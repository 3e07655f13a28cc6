package jobwatch

import (
	"testing"

	"tunctl/jobwatch/detect"
)

func TestSeveralLogsOfAJobAreReadTogetherAndForgottenApart(t *testing.T) {
	t.Parallel()
	d := detect.New("")
	feed := Feed(d)
	write := func(source int, path string, offset int64, text string, reset bool) {
		feed(Chunk{Source: source, Path: path, Offset: offset, Data: []byte(text), Reset: reset})
	}
	hint := "JupyterLab will listen on: cn042:23817\n"
	write(0, "out", 0, hint, false)
	write(1, "err", 0, "[I 10:04:11 NotebookApp] http://hostname:8888/?tok", false)
	write(0, "out", int64(len(hint)), "bye\n", false)
	write(1, "err", 50, "en=4fd1a0c5b7e2d93f4fd1a0c5b7e2d93f4fd1a0c5b7e2d93f\n", false)
	got := d.Finding()
	if got.Host != "cn042" || got.Port != 23817 || got.Token.Reveal() != "4fd1a0c5b7e2d93f4fd1a0c5b7e2d93f4fd1a0c5b7e2d93f" {
		t.Errorf("read together: %+v", got)
	}
	write(1, "err.2", 0, "nothing\n", true)
	if got := d.Finding(); !got.Token.IsZero() || got.Port != 23817 {
		t.Errorf("after one was replaced: %+v", got)
	}
}
