package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/pkg/sftp"
	"github.com/urfave/cli/v2"

	"tunctl/internal/api"
	"tunctl/internal/ctxtime"
	"tunctl/internal/output"
	"tunctl/internal/term"
	"tunctl/internal/transfer"
	"tunctl/internal/words"
)

func outputCommand(t *term.Terminal) *cli.Command {
	return &cli.Command{
		Name:      "output",
		Usage:     "show what cells printed while their page was closed",
		ArgsUsage: "[SESSION]",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, Usage: "keep showing new output until no cell runs"},
			&cli.BoolFlag{Name: "all", Usage: "show all lines, not only the last 200 of each cell"},
			&cli.BoolFlag{Name: "save", Usage: "write the cells into a new notebook on the host, beside theirs"},
			&cli.BoolFlag{Name: "clear", Usage: "delete what is kept of cells that do not run"},
			yesFlag(),
			&cli.BoolFlag{Name: "json", Usage: "print JSON"},
		},
		Action: invokeInterruptible(t, atMost(1, "a session", showOutput)),
	}
}

func showOutput(ctx context.Context, inv *invocation) error {
	if inv.Bool("follow") && (inv.Bool("json") || inv.Bool("save") || inv.Bool("clear")) {
		return usagef("--follow excludes --json, --save and --clear")
	}
	if inv.Bool("clear") && !inv.Bool("yes") && !inv.Interactive {
		return api.Errorf(api.CodeUsage, "--clear asks first, and there is no terminal").WithHint("add --yes")
	}
	name, err := inv.chooseSession(ctx, "Show the output of which session?", "no session has a job",
		func(s api.Session) bool { return s.Cells != api.Cells{} }, api.Session.HasLiveJob, hasJob)
	if err != nil {
		return err
	}
	st, err := inv.ensureAgent(ctx)
	if err != nil {
		return err
	}
	s, ok := st.Session(name)
	if !ok {
		return unknownSession(name, st)
	}
	d := &fileDialer{invocation: inv}
	d.to.Store(&api.StreamRequest{Kind: api.StreamSFTP, Host: s.Host})
	k := &keptCells{invocation: inv, session: s, host: transfer.NewHost(d.dial), originals: map[string]*output.Original{}}
	defer func() { _ = k.host.Close() }()
	if err := k.host.Do(ctx, k.read); err != nil {
		if counts := words.CellCounts(s.Cells); counts != "" {
			inv.Say("%s, as last seen: %s", name, counts)
		}
		return err
	}
	_ = k.client.Kept(ctx, name, len(k.over())) // else the next time
	if inv.Bool("json") {
		err = inv.PrintIndentedJSON(append([]*keptCell{}, k.list...))
	}
	if len(k.list) == 0 && !k.runs() {
		return errors.Join(err, k.noneError())
	}
	if inv.Bool("save") {
		err = k.save(ctx)
	}
	if inv.Bool("clear") && err == nil {
		err = k.clear(ctx)
	}
	if inv.Bool("json") || inv.Bool("save") || inv.Bool("clear") {
		return err
	}
	return k.show(ctx)
}

// keptCells are the cells of a session whose output is kept on its host.
type keptCells struct {
	*invocation
	session   api.Session
	host      *transfer.Host
	list      []*keptCell                 // in the order of their start
	originals map[string]*output.Original // the notebooks, by path; without cells: cannot be read
}

type keptCell struct {
	*output.Cell
	file  string
	at    int64  // up to where it was read
	shown string // its state when it was last shown
}

func (k *keptCells) noneError() error {
	e := api.Errorf(api.CodeFailed, "no output of session %s is kept on %s", k.session.Name, k.session.Host)
	if s, ok := readConfig(k.paths).Session(k.session.Name); ok && !s.Output {
		return e.WithHint("`output = false` in [session.%s] of the config switches that off", s.Name)
	}
	return e.WithHint("when you close the page while a cell runs, what it prints from then on is kept there for 30 days")
}

// read reads what is new in the files, and forgets the cells whose page has come back and taken everything.
func (k *keptCells) read(files *sftp.Client) error {
	folder := path.Join(".tunctl/output", regexp.MustCompile(`[^\pL\pN_.-]`).ReplaceAllString(k.session.Name, "_"))
	infos, err := files.ReadDir(folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var list []*keptCell
	for _, info := range infos {
		c := &keptCell{Cell: output.New(), file: path.Join(folder, info.Name())}
		if i := slices.IndexFunc(k.list, func(x *keptCell) bool { return x.file == c.file }); i >= 0 {
			c = k.list[i]
		}
		if !info.Mode().IsRegular() || path.Ext(c.file) != ".jsonl" {
			continue
		}
		n, err := readFrom(files, c.file, c.at, info.Size(), c)
		c.at += n
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		list, c.Number = append(list, c), k.original(files, c.Path()).Position(c.CellID)
		// A job that is killed writes no end, and for no page is waited longer than 12 hours.
		if j := k.session.Job; c.Runs() && (j != nil && (j.State.Ended() || c.Started.Before(j.Start)) || time.Since(info.ModTime()) > 12*time.Hour) {
			c.State, c.Why = "ended", "its job ended before it"
		}
	}
	slices.SortStableFunc(list, func(a, b *keptCell) int { return a.Started.Compare(b.Started) })
	k.list = list
	return nil
}

// readFrom reads a file that has a size from an offset on.
func readFrom(files *sftp.Client, name string, at, size int64, to io.Writer) (int64, error) {
	if at >= size {
		return 0, nil
	}
	f, err := files.Open(name)
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }()
	_, _ = f.Seek(at, io.SeekStart) // asks no server
	return f.WriteTo(to)
}

// original is the notebook of that path, as far as it can be read.
func (k *keptCells) original(files *sftp.Client, at string) *output.Original {
	const largest = 64 << 20
	if k.originals[at] == nil {
		k.originals[at] = &output.Original{}
		if info, err := files.Stat(at); err == nil && info.Mode().IsRegular() && info.Size() <= largest {
			var text bytes.Buffer
			_, _ = readFrom(files, at, 0, info.Size(), &text)
			_ = json.Unmarshal(text.Bytes(), k.originals[at])
		}
	}
	return k.originals[at]
}

// show prints the cells and, if they are followed, what those that run print.
func (k *keptCells) show(ctx context.Context) error {
	const lines, every = 200, 2 * time.Second
	var last *keptCell
	gap := "" // before the next title
	for {
		for _, c := range k.list {
			most := lines
			if k.Bool("all") || c.shown != "" {
				most = math.MaxInt
			}
			text, before := c.Next(most)
			if c.shown != c.State || c != last && text != "" {
				fmt.Fprintf(k.Out, "%s%s\n", gap, c.Title(time.Now()))
				c.shown, last, gap = c.State, c, "\n"
			}
			if before > 0 {
				fmt.Fprintf(k.Out, "… %s before: --all shows them\n", words.Count(before, "line"))
			}
			out := api.NewSanitizer(k.Out)
			_, _ = io.WriteString(out, text) // an error ends ctx
			out.ResetColour()
			if text != "" {
				gap = "\n\n"[strings.Count(text[len(text)-1:], "\n"):]
			}
		}
		if !k.Bool("follow") || !k.runs() {
			fmt.Fprint(k.Out, strings.TrimSuffix(gap, "\n"))
			return nil
		}
		if err := ctxtime.Sleep(ctx, every); err != nil {
			return err
		}
		st, _ := k.client.Status(ctx) // without an agent, what was known
		if s, ok := st.Session(k.session.Name); ok {
			k.session = s
		}
		if err := k.host.Do(ctx, k.read); err != nil {
			return err
		}
	}
}

// runs reports whether a cell runs, or will be written down in a moment.
func (k *keptCells) runs() bool {
	return slices.ContainsFunc(k.list, func(c *keptCell) bool { return c.Runs() }) || len(k.list) == 0 && k.session.Cells.Running > 0
}

// save writes a new notebook for each that cells are of: beside it or, where it is not found, in the home folder.
func (k *keptCells) save(ctx context.Context) error {
	notebooks := map[string][]*output.Cell{}
	for _, c := range k.list {
		notebooks[c.Path()] = append(notebooks[c.Path()], c.Cell)
	}
	for at, cells := range notebooks {
		saved := ""
		err := k.host.Do(ctx, func(files *sftp.Client) error {
			original, name := k.original(files, at), at
			if original.Cells == nil {
				name = cmp.Or(strings.Trim(path.Base(at), "/."), k.session.Name)
			}
			text, err := output.Recovered(cells, original)
			for n := 1; err == nil; n++ {
				saved = strings.TrimSuffix(name, ".ipynb") + ".recovered" + strings.TrimSuffix(fmt.Sprintf("-%d", n), "-1") + ".ipynb"
				_, err = files.Lstat(saved)
			}
			if !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			f, err := files.OpenFile(saved, os.O_WRONLY|os.O_CREATE|os.O_EXCL)
			if err != nil {
				return err
			}
			_, err = f.Write(text)
			if err = errors.Join(err, f.Close()); err != nil {
				_ = files.Remove(saved)
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("cannot write %q on %s: %w", saved, k.session.Host, err)
		}
		fmt.Fprintln(k.Out, api.Sanitize(saved))
	}
	k.Say("%s saved: open what was written in Jupyter, and copy what you need; your own notebooks are as they were", words.Count(len(k.list), "cell"))
	return nil
}

// over are the cells that do not run.
func (k *keptCells) over() []*keptCell {
	return slices.DeleteFunc(slices.Clone(k.list), func(c *keptCell) bool { return c.Runs() })
}

// clear deletes the files of cells that do not run.
func (k *keptCells) clear(ctx context.Context) error {
	ended := k.over()
	if len(ended) == 0 {
		return api.Errorf(api.CodeFailed, "nothing was deleted: the cells still run")
	}
	question := fmt.Sprintf("Delete the output of %s from %s?", words.Count(len(ended), "cell"), k.session.Host)
	if err := confirm(ctx, k.Terminal, k.Bool("yes"), question, "nothing was deleted"); err != nil {
		return err
	}
	for _, c := range ended {
		err := k.host.Do(ctx, func(files *sftp.Client) error { return files.Remove(c.file) })
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("cannot delete %s on %s: %w", c.file, k.session.Host, err)
		}
	}
	_ = k.client.Kept(ctx, k.session.Name, 0)
	k.Say("deleted the output of %s", words.Count(len(ended), "cell"))
	return nil
}
