package shell

import (
	"regexp"
	"slices"
	"strings"
)

// A star in a wildcard stands for any text, blanks included: "rm /tmp/*" is also
// the text of rm /tmp/x /etc and of rm /tmp/../etc. No author of an allow
// rule about files means that, so its words are compared with those of the
// command as well.

// fileWord is one word of a wildcard.
type fileWord struct {
	kind   fileWordKind
	expr   *regexp.Regexp
	folder string // as far as it is written
	// references: in such a word a colon leads elsewhere, and the pattern has none.
	references bool
}

type fileWordKind uint8

const (
	oneWord  fileWordKind = iota // exactly one word
	anyWords                     // "*": any number of words
	longWord                     // "run*" at the end: one word, and all that follows
	fileName                     // "/tmp/*", "*.log", "https://host/*": files, and options between them
)

// fileWords are the words of a wildcard that names files; nil if it does not.
type fileWords []fileWord

func readFileWords(pattern string) (fileWords, error) {
	var words fileWords
	names := false
	all := strings.Fields(pattern)
	for i, text := range all {
		star := starPlaces(text)
		w := fileWord{references: takesReferences[all[0]] && !strings.Contains(text, ":")}
		switch {
		case strings.Trim(text, "*") == "":
			w.kind = anyWords
		case len(star) > 0 && (strings.Contains(text, "/") || star[0] == 0):
			w.kind, names = fileName, true
			w.folder = text[:strings.LastIndexByte(text[:star[0]], '/')+1]
		case len(star) > 0 && i < len(all)-1: // "web*" of ssh web* uptime
			names = true
		case len(star) > 0:
			w.kind = longWord
		}
		var err error
		if w.expr, err = regexp.Compile("^(?s:" + wordExpression(text, i > 0 && takesURLs[all[0]]) + ")$"); err != nil {
			return nil, err
		}
		words = append(words, w)
	}
	if !names {
		return nil, nil
	}
	return words, nil
}

// starPlaces are the places of the stars that stand for text.
func starPlaces(word string) []int {
	var at []int
	for i := 0; i < len(word); i++ {
		switch {
		case word[i] == '*':
			at = append(at, i)
		case word[i] == '\\' && i+1 < len(word) && (word[i+1] == '*' || word[i+1] == '\\'):
			i++
		}
	}
	return at
}

// Host names end where one of these characters stands.
const inHost = `[^/?#@\\%\s]*`

// takesURLs are programs whose words are URLs, with a scheme or without.
// takesReferences are those to which feature/x:main is main, and a@npm:b is b.
var takesURLs, takesReferences = setOf("curl wget http https xh aria2c"), setOf("git npm pnpm yarn")

// wordExpression is the expression of one word. In the host of a URL a star
// does not go beyond it, and one at its end stands for a port and a path.
func wordExpression(word string, url bool) string {
	var b strings.Builder
	for i, host := 0, hostEnd(word, url); i < len(word); i++ {
		switch c := word[i]; {
		case c == '*' && i < host:
			b.WriteString(hostStar(word, i))
			continue
		case c == '*':
			b.WriteString(".*")
			continue
		case c == '\\' && i+1 < len(word) && (word[i+1] == '*' || word[i+1] == '\\'):
			i++
		}
		b.WriteString(regexp.QuoteMeta(word[i : i+1]))
	}
	return b.String()
}

// hostEnd is where the host of a URL ends in a pattern; 0 if there is none.
func hostEnd(word string, url bool) int {
	begin := 0
	if i := strings.Index(word, "://"); i >= 0 {
		begin = i + 3
	} else if !url || word[0] == '-' {
		return 0
	}
	if begin == len(word) || word[begin:] == "*" {
		return 0 // any host at all
	}
	if slash := strings.IndexByte(word[begin:], '/'); slash >= 0 {
		return begin + slash
	}
	return len(word)
}

// hostStar is what a star in a host stands for: at its end a port and a path, at
// its beginning also the scheme.
func hostStar(word string, i int) string {
	switch {
	case i == len(word)-1 && strings.HasSuffix(word[:i], ":"):
		return `[0-9]{1,5}(?:[/?#].*)?`
	case i == len(word)-1:
		return `(?::[0-9]{1,5})?(?:[/?#].*)?`
	case i == 0:
		return `(?:https?://)?` + inHost
	}
	return inHost
}

// maxFileWords bounds the words of the pattern times those of the command.
const maxFileWords = 1 << 14

// coverWords says whether the words are those of the command.
func (f fileWords) coverWords(argv []Word) bool {
	if len(f) == 0 {
		return true
	}
	if len(f)*len(argv) > maxFileWords {
		return false
	}
	// ends[i] says whether the words of the pattern so far can be the first i of
	// the command.
	ends := make([]bool, len(argv)+1)
	ends[0] = true
	for _, w := range f {
		ends = w.extend(ends, argv)
	}
	return ends[len(argv)]
}

// extend goes on by one word of the pattern.
func (w fileWord) extend(ends []bool, argv []Word) []bool {
	next := make([]bool, len(ends))
	open := false // the word of the pattern may go on
	for i := range ends {
		switch {
		case w.kind == anyWords:
			open = open || ends[i]
			next[i] = open
			continue
		case i == 0:
			continue
		case ends[i-1] && w.matchesWord(argv[i-1]):
			open = true
		case open && w.kind == longWord:
		case open && w.kind == fileName && (w.matchesWord(argv[i-1]) || plainOption(argv[i-1])):
		default:
			open = false
		}
		next[i] = open && (w.kind != oneWord || ends[i-1])
	}
	return next
}

// matchesWord says whether one word of the command is what the word of the pattern
// means: that file, or one below that folder.
func (w fileWord) matchesWord(arg Word) bool {
	if !w.expr.MatchString(arg.Text) {
		return false
	}
	arg.Text = strings.TrimPrefix(arg.Text, w.folder)
	return w.kind != fileName || !leavesFolder(arg) && !(w.references && strings.Contains(arg.Text, ":"))
}

// leavesFolder says whether a path or URL may lead out of its folder.
func leavesFolder(arg Word) bool {
	text := strings.ReplaceAll(strings.ToLower(arg.Text), "%2e", ".")
	return slices.ContainsFunc(strings.FieldsFunc(text, func(r rune) bool { return r == '/' || r == '\\' }), func(segment string) bool {
		return segment == ".." || !arg.Fixed && strings.HasPrefix(segment, ".") && segment != "." // .* is also ..
	})
}

// plainOption says whether a word is an option that names no file.
func plainOption(w Word) bool {
	return w.Fixed && len(w.Text) > 1 && w.Text[0] == '-' && !strings.ContainsAny(w.Text, "/\\") && !strings.Contains(w.Text, "..")
}
