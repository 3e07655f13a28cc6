package lab

import (
	"fmt"
	"strings"
)

// option is one option of a command line, by its first name.
type option struct{ name, value string }

// optionSpec says which options a program knows: each name, short or long, with
// the name it is filed under and whether it takes a value.
type optionSpec map[string]optionKind

type optionKind struct {
	name  string
	value bool
}

// optionsOf makes a spec of words such as "J|job-name=" (takes a value) and
// "h|noheader". The last name is the one the option is filed under.
func optionsOf(words ...string) optionSpec {
	spec := optionSpec{}
	for _, word := range words {
		word, value := strings.CutSuffix(word, "=")
		names := strings.Split(word, "|")
		for _, name := range names {
			spec[name] = optionKind{names[len(names)-1], value}
		}
	}
	return spec
}

type unknownOptionError struct{ option string }

func (e *unknownOptionError) Error() string { return "unknown option " + e.option }

// parse takes a command line apart as getopt_long does. With permute off it ends
// at the first word that is no option, which is a script's name.
func (spec optionSpec) parse(args []string, permute bool) (options []option, rest []string, err error) {
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		switch {
		case arg == "--":
			return options, append(rest, args...), nil
		case arg == "-" || !strings.HasPrefix(arg, "-"):
			rest = append(rest, arg)
			if !permute {
				return options, append(rest, args...), nil
			}
		case strings.HasPrefix(arg, "--"):
			if options, args, err = spec.long(options, arg, args); err != nil {
				return nil, nil, err
			}
		default:
			if options, args, err = spec.short(options, arg[1:], args); err != nil {
				return nil, nil, err
			}
		}
	}
	return options, rest, nil
}

func (spec optionSpec) long(options []option, arg string, args []string) ([]option, []string, error) {
	name, value, hasValue := strings.Cut(arg[2:], "=")
	kind, ok := spec[name]
	if !ok || len(name) == 1 {
		return nil, nil, &unknownOptionError{"--" + name}
	}
	if kind.value && !hasValue {
		if len(args) == 0 {
			return nil, nil, fmt.Errorf("option '%s' requires an argument", arg)
		}
		value, args = args[0], args[1:]
	}
	return append(options, option{kind.name, value}), args, nil
}

func (spec optionSpec) short(options []option, flags string, args []string) ([]option, []string, error) {
	for flags != "" {
		name := flags[:1]
		flags = flags[1:]
		kind, ok := spec[name]
		if !ok {
			return nil, nil, &unknownOptionError{name}
		}
		if !kind.value {
			options = append(options, option{kind.name, ""})
			continue
		}
		if flags == "" {
			if len(args) == 0 {
				return nil, nil, fmt.Errorf("option requires an argument -- '%s'", name)
			}
			flags, args = args[0], args[1:]
		}
		options = append(options, option{kind.name, strings.TrimPrefix(flags, "=")})
		break
	}
	return options, args, nil
}

// directives are the option words in a script's comments, down to its first
// command, as the schedulers read them.
func directives(script, prefix string) []string {
	var words []string
	for line := range strings.Lines(script) {
		line = strings.TrimSpace(line)
		if rest, ok := strings.CutPrefix(line, prefix); ok && rest != "" && (rest[0] == ' ' || rest[0] == '\t') {
			words = append(words, splitWords(rest)...)
			continue
		}
		if line != "" && !strings.HasPrefix(line, "#") {
			break
		}
	}
	return words
}

// splitWords splits a directive at blanks, minding quotes, up to a comment.
func splitWords(line string) []string {
	var words []string
	var word strings.Builder
	var quote rune
	inWord := false
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '"' || r == '\'':
			quote, inWord = r, true
		case r == ' ' || r == '\t':
			if inWord {
				words = append(words, word.String())
				word.Reset()
				inWord = false
			}
		case r == '#' && !inWord:
			return words
		default:
			word.WriteRune(r)
			inWord = true
		}
	}
	if inWord {
		words = append(words, word.String())
	}
	return words
}
