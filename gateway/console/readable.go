package console

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"html/template"
	"image"
	_ "image/jpeg" // see shownFormats
	_ "image/png"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/internal/linediff"
	"github.com/askance-dev/askance/internal/reveal"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
)

// maxArguments bounds the tree of arguments; larger inputs are shown as text.
const maxArguments = 3000

// arguments are JSON for people, as a tree and raw.
type arguments struct {
	Tree  []asked.Argument // nil: only Raw
	Raw   string
	Bytes int
}

// block is an argument that is easier to read than JSON: a command, a text, or an edit of a file.
// Misleading characters in it are visible.
type block struct {
	Kind  string // command, text, patch, edit
	Name  string // of the argument
	Title string // of an edit: the file, not revealed
	Lines []string
	Diff  []change         // of a patch and an edit
	Rest  []asked.Argument // of an edit in a list: what else it has
}

// blockKinds are the names of arguments that become blocks if they are strings. A one-line string
// becomes a block only if it is a command.
var blockKinds = map[string]string{
	"command": "command", "cmd": "command", "script": "command", "bash": "command", "shell": "command",
	"code": "text", "query": "text", "sql": "text", "content": "text", "contents": "text", "text": "text", "body": "text", "source": "text", "message": "text", "new_source": "text",
	"patch": "patch", "diff": "patch",
}

// editPairs are the names of the texts before and after an edit.
var editPairs = [][2]string{
	{"old_string", "new_string"}, {"old_str", "new_str"}, {"old_text", "new_text"}, {"oldText", "newText"}, {"oldString", "newString"}, {"old", "new"}, {"before", "after"}, {"search", "replace"},
}

var fileNames = []string{"file_path", "path", "filename", "file", "filePath", "notebook_path", "uri"}

// readable splits arguments into blocks and a tree of the rest. Each argument is in exactly one of
// them, and Raw has everything.
func readable(input string) ([]block, arguments) {
	args := arguments{Raw: input, Bytes: len(input)}
	args.Tree, _ = asked.Arguments(input, maxArguments)
	members, err := strictjson.Members([]byte(input))
	if args.Tree == nil || err != nil {
		return nil, args
	}
	texts := textsOf(members)
	var out []block
	used := map[string]bool{}
	title := fileOf(texts)
	if b, names, ok := editOf(texts, title); ok {
		out = append(out, b)
		used[names[0]], used[names[1]] = true, true
	}
	for _, m := range members {
		if text, ok := texts[m.Name]; ok && !used[m.Name] {
			if b, ok := blockOf(m.Name, text); ok {
				out, used[m.Name] = append(out, b), true
			}
			continue
		}
		if m.Name == "edits" {
			if all, ok := editsOf(m.Value, title); ok {
				out, used[m.Name] = append(out, all...), true
			}
		}
	}
	args.Tree = slices.DeleteFunc(args.Tree, func(a asked.Argument) bool { return used[a.Name] })
	slices.SortStableFunc(out, func(a, b block) int { return rank(a.Kind != "command") - rank(b.Kind != "command") })
	return out, args
}

// fileOf returns the file that the arguments name, or "" if they name several: only the tool knows
// which of them it edits.
func fileOf(texts map[string]string) (file string) {
	for _, n := range fileNames {
		if text := texts[n]; text != "" && file != "" && text != file {
			return ""
		}
		file = cmp.Or(file, texts[n])
	}
	return file
}

func blockOf(name, text string) (block, bool) {
	kind, ok := blockKinds[name]
	if !ok || kind != "command" && !strings.Contains(text, "\n") || text == "" {
		return block{}, false
	}
	shown, ends := strings.CutSuffix(reveal.Text(text), "\n")
	if ends && kind == "command" { // a terminal runs it without waiting for Enter
		shown += reveal.Mark('\n')
	}
	b := block{Kind: kind, Name: name, Lines: strings.Split(shown, "\n")}
	if kind == "patch" {
		for _, l := range b.Lines {
			mark := " "
			if strings.HasPrefix(l, "+") || strings.HasPrefix(l, "-") {
				mark, l = l[:1], l[1:]
			}
			b.Diff = append(b.Diff, change{mark, l})
		}
	}
	return b, true
}

func editOf(texts map[string]string, title string) (b block, names [2]string, ok bool) {
	for _, names := range editPairs {
		before, was := texts[names[0]]
		after, is := texts[names[1]]
		if was && is {
			return block{Kind: "edit", Name: names[1], Title: title, Diff: diffOf(before, after)}, names, true
		}
	}
	return block{}, names, false
}

func textsOf(members []strictjson.Member) map[string]string {
	texts := map[string]string{}
	for _, m := range members {
		if text, err := strictjson.Text(m.Value); err == nil {
			texts[m.Name] = text
		}
	}
	return texts
}

// editsOf returns the edits of a list; ok is false if any item is something else. Each names its own
// file, or edits the one of the call.
func editsOf(data []byte, title string) (all []block, ok bool) {
	items, err := strictjson.Items(data)
	if err != nil || len(items) == 0 {
		return nil, false
	}
	for _, item := range items {
		members, err := strictjson.Members(item.Value)
		texts := textsOf(members)
		isFile := func(name string) bool { return slices.Contains(fileNames, name) }
		file := title
		if slices.ContainsFunc(slices.Collect(maps.Keys(texts)), isFile) {
			if file = fileOf(texts); title != "" && title != file {
				file = ""
			}
		}
		b, names, ok := editOf(texts, file)
		if err != nil || !ok {
			return nil, false
		}
		b.Rest, _ = asked.Arguments(string(item.Value), maxArguments)
		b.Rest = slices.DeleteFunc(b.Rest, func(a asked.Argument) bool {
			return a.Name == names[0] || a.Name == names[1] || file != "" && isFile(a.Name) && texts[a.Name] == file
		})
		all = append(all, b)
	}
	return all, true
}

func diffOf(before, after string) []change {
	var was, is []string
	if before != "" {
		was = strings.Split(before, "\n")
	}
	if after != "" {
		is = strings.Split(after, "\n")
	}
	lines := linediff.Lines(was, is)
	out := make([]change, len(lines))
	marks := map[string]string{} // of changed lines, by their text without space
	blank := map[string]bool{}   // what is both added and removed
	for i, l := range lines {
		out[i] = change{l[:1], reveal.Text(l[2:])}
		if bare := strings.Join(strings.Fields(l[2:]), ""); l[0] != ' ' {
			blank[bare] = blank[bare] || marks[bare] != "" && marks[bare] != l[:1]
			marks[bare] = l[:1]
		}
	}
	for i, l := range lines { // lines that differ only in space show tabs, and spaces at the end
		if l[0] != ' ' && blank[strings.Join(strings.Fields(l[2:]), "")] {
			text := reveal.Line(l[2:])
			bare := strings.TrimRight(text, " ")
			out[i].Text = bare + strings.Repeat(reveal.Mark(' '), len(text)-len(bare))
		}
	}
	return out
}

// A page folds what follows the first fold lines, items or bytes of a value that has twice as many.
const (
	foldLines = 100
	foldBytes = 8000
)

// foldAt returns how much of a value a page shows before it folds the rest. The value is lines, a
// diff, members of arguments, or a text of package reveal, whose marks it does not break.
func foldAt(value any) int {
	switch v := value.(type) {
	case []string:
		return foldLinesAt(len(v), func(i int) int { return len(v[i]) })
	case []change:
		return foldLinesAt(len(v), func(i int) int { return len(v[i].Text) })
	case []asked.Argument:
		return foldLinesAt(len(v), func(int) int { return 0 })
	case string:
		if len(v) <= 2*foldBytes {
			return len(v)
		}
		at := foldBytes
		for !utf8.RuneStart(v[at]) {
			at--
		}
		if open := strings.LastIndex(v[:at], "‹"); open > strings.LastIndex(v[:at], "›") {
			at = open
		}
		return at
	}
	return 0
}

func foldLinesAt(n int, size func(int) int) int {
	shown, bytes := 0, 0
	for i := range n {
		if bytes += size(i); i < foldLines && bytes <= foldBytes {
			shown = i + 1
		}
	}
	if n <= 2*foldLines && bytes <= 2*foldBytes {
		return n
	}
	return shown
}

// Of the unchanged lines of a diff between two texts that the server knows, a page folds those that
// are further than nearLines from a change, if they are more than nearLines. Arguments only claim what
// an edit or a patch leaves unchanged, so their lines are folded like other text.
const nearLines = 3

// folded is a diff as a page shows it. What follows the first lines of a long one is in More.
type folded struct {
	Shown, More []hunk
	Left        int // number of lines in More
}

// hunk is consecutive lines of a diff. Same are unchanged lines that a page folds. They are the lines
// From to To of the text before the change: an edit elsewhere moves neither.
type hunk struct {
	Same     bool
	Lines    []change
	From, To int
}

func foldDiff(diff []change) folded {
	all := hunksOf(diff)
	var lines []change
	for _, h := range all {
		if !h.Same {
			lines = append(lines, h.Lines...)
		}
	}
	left := foldAt(lines)
	isCut := left < len(lines)
	var out folded
	for _, h := range all {
		n := len(h.Lines)
		switch {
		case !h.Same:
			n = min(left, n)
			left -= n
		case isCut && left == 0:
			n = 0
		}
		if n > 0 {
			out.Shown = append(out.Shown, hunk{h.Same, h.Lines[:n], h.From, h.To})
		}
		if h.Lines = h.Lines[n:]; len(h.Lines) > 0 {
			out.More, out.Left = append(out.More, h), out.Left+len(h.Lines)
		}
	}
	return out
}

// areNear says which lines are at most nearLines from a change.
func areNear(diff []change) []bool {
	near := make([]bool, len(diff))
	for i, l := range diff {
		if l.Mark != " " {
			for k := max(0, i-nearLines); k <= min(len(diff)-1, i+nearLines); k++ {
				near[k] = true
			}
		}
	}
	return near
}

func hunksOf(diff []change) (out []hunk) {
	near := areNear(diff)
	line := 1 // of the text before the change
	for i := 0; i < len(diff); {
		h := hunk{From: line}
		end := i
		for ; end < len(diff) && near[end] == near[i]; end++ {
			if diff[end].Mark != "+" {
				line++
			}
		}
		h.Same, h.Lines, h.To = !near[i] && end-i > nearLines, diff[i:end], line-1
		if last := len(out) - 1; last >= 0 && !h.Same && !out[last].Same {
			out[last].Lines = diff[i-len(out[last].Lines) : end]
		} else {
			out = append(out, h)
		}
		i = end
	}
	return out
}

// The marks of package reveal for the two invisible characters of emoji.
const (
	joiner   = "‹U+200D›"
	selector = "‹U+FE0F›"
)

// textual are the characters of Unicode 15 that are text without a selector, and an emoji with one.
const textual = `[©®‼⁉™ℹ↔-↙↩↪⌨⏏⏭-⏯⏱⏲⏸-⏺Ⓜ▪▫▶◀◻◼☀-☄☎☑☘☝☠☢☣☦☪☮☯☸-☺♀♂♟♠♣♥♦♨♻♾⚒⚔-⚗⚙⚛⚜⚠⚧⚰⚱⛈⛏⛑⛓⛩⛰⛱⛴⛷-⛹✂✈✉✌✍✏✒✔✖✝✡✳✴❄❇❣❤➡⤴⤵⬅-⬇〰〽㊗㊙🅰🅱🅾🅿🈂🈷🌡🌤-🌬🌶🍽🎖🎗🎙-🎛🎞🎟🏋-🏎🏔-🏟🏳🏵🏷🐿👁📽🕉🕊🕯🕰🕳-🕹🖇🖊-🖍🖐🖥🖨🖱🖲🖼🗂-🗄🗑-🗓🗜-🗞🗡🗣🗨🗯🗳🗺🛋🛍-🛏🛠-🛥🛩🛰🛳]`

// joined matches the emoji that Unicode joins of several ones, and textual ones with a selector. J is
// the joiner, V the selector and S a skin tone.
var joined = func() *regexp.Regexp {
	const (
		turned   = `(?:J➡V)?`
		acting   = `(?:[⛹🏋🕵](?:V|S)|[🏃🏄🏊🏌👮👯👰👱👳👷💁💂💆💇🙅🙆🙇🙋🙍🙎🚣🚴🚵🚶🤦🤵🤷🤸🤹🤼🤽🤾🦸🦹🧍🧎🧏🧔🧖🧗🧘🧙🧚🧛🧜🧝🧞🧟]S?)J[♀♂]V` + turned
		working  = `[👨👩🧑]S?J(?:[⚕⚖✈]V|[🌾🍳🍼🎓🎤🎨🏫🏭💻💼🔧🔬🚀🚒🦯🦰🦱🦲🦳🦼🦽]` + turned + `)`
		families = `(?:👨J[👨👩]|👩J👩|👨|👩)J(?:👦(?:J👦)?|👧(?:J[👦👧])?)|🧑(?:J🧑)?J🧒(?:J🧒)?`
		couples  = `👨J❤VJ(?:💋J)?👨|👩J❤VJ(?:💋J)?[👨👩]|🧑S?J🤝J🧑S?`
		others   = `[🏃🚶🧎]S?J➡V|🧑S?J🎄|❤VJ[🔥🩹]|⛓VJ💥|🏳VJ(?:🌈|⚧V)|🏴J☠V|🐈J⬛|🐦J[⬛🔥]|🐕J🦺|🐻J❄V|👁VJ🗨V|🍄J🟫|🍋J🟩|😮J💨|😵J💫|😶J🌫V|🙂J[↔↕]V`
	)
	all := strings.NewReplacer("J", regexp.QuoteMeta(joiner), "V", regexp.QuoteMeta(selector), "S", `[🏻-🏿]`)
	return regexp.MustCompile(all.Replace(acting + `|` + working + `|` + families + `|` + couples + `|` + others + `|` + textual + `V`))
}()

// joinEmoji puts the invisible characters of emoji back into a text of package reveal that no tool
// gets, where browsers draw one picture from them. In arguments they stay visible, because many emoji
// look the same without them. Terminals disagree on the width of such emoji, so they show the marks.
func joinEmoji(revealed string) string {
	if !strings.Contains(revealed, joiner) && !strings.Contains(revealed, selector) {
		return revealed
	}
	return joined.ReplaceAllStringFunc(revealed, strings.NewReplacer(joiner, "\u200d", selector, "\ufe0f").Replace)
}

// A page shows so many images of a result, with so many pixels together, and only names the others: a
// few bytes can unpack to more memory than a browser has.
const (
	maxPictures = 20
	maxPixels   = 32 << 20
)

// shownFormats are the formats whose header has the size of all that a browser unpacks: not GIF.
var shownFormats = []string{"jpeg", "png"}

// picture is an image of a result. Src has its bytes, and the format that they are in: an image of
// another format, such as SVG, which can contain links and scripts, is only named.
type picture struct {
	Name          string
	Src           template.URL
	Width, Height int
}

func picturesOf(c message.Content) (out []picture) {
	left := maxPixels
	for _, b := range c.Blocks {
		data, ok := b.(*message.DataBlock)
		if !ok || len(out) == maxPictures {
			continue
		}
		source, ok := data.Source.(*message.Base64Source)
		if !ok {
			continue
		}
		raw, err := base64.StdEncoding.DecodeString(source.Data)
		if err != nil {
			continue
		}
		size, format, err := image.DecodeConfig(bytes.NewReader(raw))
		if err != nil || !slices.Contains(shownFormats, format) || size.Width <= 0 || size.Height <= 0 || size.Height > left/size.Width {
			continue
		}
		left -= size.Width * size.Height
		src := "data:image/" + format + ";base64," + base64.StdEncoding.EncodeToString(raw)
		out = append(out, picture{asked.DataName(data), template.URL(src), size.Width, size.Height}) //nolint:gosec // the characters of base64 end no attribute
	}
	return out
}
