package agentscope

import (
	"errors"
	"regexp"
	"slices"
	"strings"
)

// sedFault says what the sed of a line does besides plain printing or substitution; ""
// if nothing, or if there is no sed. Like upstream it looks only at the first sed of
// the line.
func sedFault(line string) string {
	if !strings.Contains(line, "sed") {
		return ""
	}
	words, err := splitWords(line)
	if err != nil {
		return "sed in a line whose quotes do not match"
	}
	at := slices.IndexFunc(words, func(w string) bool { return w == "sed" || strings.HasSuffix(w, "/sed") })
	if at < 0 {
		return ""
	}
	s := readSed(words[at+1:])
	if len(s.scripts) == 0 {
		return "sed without a script"
	}
	if i := strings.IndexFunc(s.flags, func(r rune) bool { return !strings.ContainsRune("nEei", r) }); i >= 0 {
		return "sed with an option other than -n -E -e -i"
	}
	for _, script := range s.scripts {
		if why := scriptFault(script, strings.Contains(s.flags, "n")); why != "" {
			return why
		}
	}
	if !strings.Contains(s.flags, "i") {
		return ""
	}
	for _, f := range s.files {
		if slices.ContainsFunc(dangerousFiles, func(d string) bool { return strings.Contains(f, d) }) {
			return "sed -i on the sensitive file " + f
		}
	}
	return ""
}

type sedCall struct {
	flags          string
	scripts, files []string
}

func readSed(args []string) sedCall {
	var s sedCall
	first := true
	for i := 0; i < len(args); i++ {
		arg := args[i]
		// A word that may be the suffix of -i is skipped.
		skip := i+1 < len(args) && !strings.HasPrefix(args[i+1], "-") && !strings.HasPrefix(args[i+1], "s") && !strings.Contains(args[i+1], ".")
		switch {
		case strings.HasPrefix(arg, "-") && !strings.HasPrefix(arg, "--"):
			s.flags += arg[1:]
			if strings.Contains(arg, "i") && skip {
				i++
			}
		case arg == "--in-place":
			s.flags += "i"
			if skip {
				i++
			}
		case arg == "--expression":
			if i+1 < len(args) {
				i++
				s.scripts = append(s.scripts, args[i])
			}
		case strings.HasPrefix(arg, "-"):
		case first:
			s.scripts, first = append(s.scripts, arg), false
		default:
			s.files = append(s.files, arg)
		}
	}
	return s
}

var (
	sedWrites  = regexp.MustCompile(`/[wW]\s+\S+|/[wW]$`)
	sedRuns    = regexp.MustCompile(`/[eE](\s|$)`)
	sedNumbers = regexp.MustCompile(`^[0-9]+(,[0-9]+)?p\n?$`)
)

func scriptFault(script string, quiet bool) string {
	switch {
	case sedWrites.MatchString(script):
		return "a sed script that writes a file"
	case sedRuns.MatchString(script):
		return "a sed script that runs a command"
	case strings.ContainsAny(script, "{}"):
		return "a sed script with braces"
	case strings.HasPrefix(script, "!"):
		return "a sed script that begins with !"
	case strings.Contains(script, "#") && !strings.HasPrefix(script, "s#"):
		return "a sed script with a comment"
	case quiet && sedNumbers.MatchString(script):
		return ""
	case plainSubstitution(script):
		return ""
	}
	return "a sed script that is neither a plain print nor a plain substitution"
}

func plainSubstitution(script string) bool {
	if len(script) < 2 || script[0] != 's' || !strings.ContainsRune("/|#", rune(script[1])) {
		return false
	}
	parts := strings.Split(script[2:], script[1:2])
	return len(parts) == 2 || len(parts) > 2 && strings.Trim(parts[2], "gp0123456789") == ""
}

var errQuotes = errors.New("quotes do not match")

// splitWords splits a line and removes quotes and backslashes as Python's shlex.split
// does. It does not know operators.
func splitWords(line string) ([]string, error) {
	var out []string
	var word []rune
	started, quote := false, rune(0)
	chars := []rune(line)
	for i := 0; i < len(chars); i++ {
		c := chars[i]
		switch {
		case c == '\\' && quote != '\'':
			i++
			if i == len(chars) {
				return nil, errQuotes
			}
			if quote == '"' && chars[i] != '"' && chars[i] != '\\' {
				word = append(word, '\\')
			}
			word, started = append(word, chars[i]), true
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
			word = append(word, c)
		case c == '\'' || c == '"':
			quote, started = c, true
		case strings.ContainsRune(" \t\r\n", c):
			if started {
				out, word, started = append(out, string(word)), nil, false
			}
		default:
			word, started = append(word, c), true
		}
	}
	if quote != 0 {
		return nil, errQuotes
	}
	if started {
		out = append(out, string(word))
	}
	return out, nil
}
