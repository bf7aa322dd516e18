package archtest_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/askance-dev/askance/internal/archtest"
)

// maxBareNames is how many functions of engine and bus have a name of one word that does not say
// what they act on. Lower it whenever one is renamed.
const maxBareNames = 9 // values, such as a median or the text of a token

// plainVerbs are usual one-word methods in Go programs: the receiver is the object.
var plainVerbs = strings.Fields(`add append apply check clone close compare connect count create decode delete expand find
	flush get has insert len list load match merge next open publish put read remove restore run save send set start stop
	subscribe update verify wait write commit`)

// The handler of an operation has the operation's name.
var handlers = []string{"engine.Port", "bus.Client"}

// A function is a verb with its object, a predicate begins with is, has or needs.
func TestBareNames(t *testing.T) {
	names := bareNames(sources(t))
	if len(names) > maxBareNames {
		t.Errorf("%d functions have a name of one word, at most %d: name what each acts on\n%s", len(names), maxBareNames, strings.Join(names, "\n"))
	}
	t.Logf("%d names of one word", len(names))
}

var oneWord = regexp.MustCompile(`^[a-z]+$`)

func bareNames(all []archtest.Source) []string {
	var out []string
	for _, s := range all {
		if s.Test() || strings.HasSuffix(s.Folder, "test") || !strings.HasPrefix(s.Folder+"/", "engine/") && !strings.HasPrefix(s.Folder+"/", "bus/") {
			continue
		}
		for _, d := range s.AST.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || !oneWord.MatchString(f.Name.Name) || slices.Contains(plainVerbs, f.Name.Name) {
				continue
			}
			name := s.Folder
			if f.Recv != nil {
				name += "." + receiver(f.Recv.List[0].Type)
			}
			if !slices.Contains(handlers, name) {
				out = append(out, name+"."+f.Name.Name)
			}
		}
	}
	return out
}

func TestBareNamesAreFound(t *testing.T) {
	text := "package engine\nfunc take() {}\nfunc takeTask() {}\nfunc (b *Book) put() {}\nfunc (b *Book) fill() {}\nfunc (p *Port) fill() {}\n"
	tree, err := parser.ParseFile(token.NewFileSet(), "engine/a.go", text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	found := bareNames([]archtest.Source{{Folder: "engine", File: "engine/a.go", AST: tree}, {Folder: "gateway", File: "gateway/a.go", AST: tree}})
	if want := []string{"engine.take", "engine.Book.fill"}; !slices.Equal(found, want) {
		t.Errorf("found %v, want %v", found, want)
	}
}
