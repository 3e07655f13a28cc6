// Package posixsh writes for POSIX shells: it quotes words, and has the command lines
// that start a script on a host. It runs nothing, and knows no host and no SSH.
package posixsh

import "strings"

// Command lines that every login shell (bash, zsh, fish, tcsh, sh) reads alike: they
// are constants, and what to run comes on standard input. The Login ones give it the
// environment of a login shell, where many sites set the PATH of their scheduler. Its
// start-up files find standard input empty.
const (
	// Script runs all of standard input.
	Script      = `exec sh -s`
	LoginScript = `exec sh -c '` + preferBash + evalInput + orSh + evalInput + `'`

	// Line runs the first line of standard input, and leaves the rest to it: the
	// shell's read takes not a byte more than its line.
	Line      = `exec sh -c '` + readLine + `eval "$line"'`
	LoginLine = `exec sh -c '` + readLine + `export line; ` + preferBash + evalLine + orSh + evalLine + `'`

	preferBash = `exec 3<&0 </dev/null; command -v bash >/dev/null 2>&1 && exec bash -lc `
	orSh       = `; exec sh -lc `
	readLine   = `IFS= read -r line; `
	evalInput  = `"` + readSetup + `eval \"\$(cat <&3)\""`
	evalLine   = `"` + readSetup + `exec <&3 3<&-; eval \"\$line\""`
	readSetup  = ReadSetup + `; `

	// SetupFile has what a login shell needs besides, on a host whose start-up files do not give bash the
	// PATH of the scheduler. Package jobwatch writes it.
	SetupFile = `~/.tunctl/setup`
	// ReadSetup reads it, if nobody but its owner can write it, as ssh requires of its own files.
	ReadSetup = `test ! -O ` + SetupFile + ` || find -H ~/.tunctl ` + SetupFile + ` -prune -perm -020 -o -prune -perm -002 2>&1 | grep -q . || . ` + SetupFile
)

// Quote makes text one word, whatever it contains. A NUL byte cannot be in any word
// and ends it.
func Quote(text string) string {
	text, _, _ = strings.Cut(text, "\x00")
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// Join quotes each word.
func Join(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = Quote(w)
	}
	return strings.Join(quoted, " ")
}

// Typed is a command line as a person would type it: a word is quoted only where that is needed.
func Typed(words ...string) string {
	line := ""
	for _, w := range words {
		if w == "" || strings.Trim(w, plain+"/=,@%") != "" {
			w = Quote(w)
		}
		line += " " + w
	}
	return strings.TrimPrefix(line, " ")
}

// plain are characters that mean themselves to a shell, wherever they are.
const plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.:+-"

// QuotePath quotes a path on a host; a leading ~/ becomes the home folder.
func QuotePath(path string) string {
	if path == "~" {
		return `"$HOME"`
	}
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		return `"$HOME"/` + Quote(rest)
	}
	return Quote(path)
}

// IsWord reports whether text is only an address, a name or a number, without a meaning to
// a shell or as an option.
func IsWord(text string) bool {
	return text != "" && text[0] != '-' && strings.Trim(text, plain+"[]") == ""
}
