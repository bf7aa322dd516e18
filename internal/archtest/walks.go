package archtest

import (
	"fmt"
	"go/ast"
	"io/fs"
	"strings"
)

// A Walk follows one request of a call's life through the functions that decide.
type Walk struct {
	Name  string
	Steps []WalkStep
}

// WalkStep is one function on the way: its folder, its name ("Type.method" or
// "function") and what it does there.
type WalkStep struct{ Folder, Func, Does string }

// Walks are the three requests that move a call from its proposal to its result.
func Walks() []Walk {
	return []Walk{
		{"a proposal", []WalkStep{
			{"engine", "Port.propose", "knows the principal, redacts the reply"},
			{"engine", "proposer.propose", "checks the request as a whole, binds the session"},
			{"engine", "decider.decideCall", "asks the policy, then standing approvals"},
			{"engine/internal/decide", "Judge.DecideAndExplain", "turns the policy's decision into an event"},
			{"toolcall", "Machine.Step", "moves the call, collects effects"},
			{"engine/internal/store", "Store.AppendFirst", "writes the first record"},
			{"engine", "keeper.performEffects", "runs it here, offers it to workers, or sets timers"},
		}},
		{"a response", []WalkStep{
			{"engine", "Port.answer", "knows the principal, redacts the reply"},
			{"engine/internal/approve", "Responses.Take", "reads the call and moves it"},
			{"engine/internal/approve", "checkRequest", "one of the ordered checks"},
			{"toolcall", "Requirement.Tally", "counts who must still agree"},
			{"engine", "attempts.beginAllowed", "begins the call in the same record"},
			{"engine/internal/store", "Store.UpdateCall", "compare-and-swap on the last record"},
			{"engine", "keeper.performEffects", "offers or runs the call"},
		}},
		{"a start and its result", []WalkStep{
			{"executor", "check", "verifies the grant over the bytes that it will run"},
			{"executor", "attempt.start", "asks to start, verifies the signed reply"},
			{"engine", "workers.startAttempt", "binds the attempt to this worker, durably"},
			{"executor", "attempt.run", "runs the tool, sends heartbeats"},
			{"executor", "attempt.deliver", "sends the result until it is answered"},
			{"engine", "workers.storeResult", "takes the result of the attempt's owner only"},
			{"toolcall", "Machine.Step", "finishes the call"},
			{"engine/internal/store", "Store.UpdateCall", "writes the last record"},
		}},
	}
}

// WalkPicture draws the walks through the files that hold their functions. It
// fails where a function does not exist any more.
func WalkPicture(root fs.FS) (string, error) {
	var b strings.Builder
	b.WriteString("```mermaid\nflowchart TD\n")
	for i, w := range Walks() {
		fmt.Fprintf(&b, "    subgraph w%d[%s]\n", i, w.Name)
		for j, s := range w.Steps {
			file, err := fileOf(root, s)
			if err != nil {
				return "", err
			}
			fmt.Fprintf(&b, "    w%d_%d[\"%s<br/>%s: %s\"]\n", i, j, file, s.Func, s.Does)
			if j > 0 {
				fmt.Fprintf(&b, "    w%d_%d --> w%d_%d\n", i, j-1, i, j)
			}
		}
		b.WriteString("    end\n")
	}
	b.WriteString("```\n")
	return b.String(), nil
}

func fileOf(root fs.FS, s WalkStep) (string, error) {
	files, err := parseFolder(root, s.Folder)
	if err != nil {
		return "", err
	}
	for name, file := range files {
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && funcName(f) == s.Func {
				return name, nil
			}
		}
	}
	return "", fmt.Errorf("%s: no function %s: correct internal/archtest/walks.go", s.Folder, s.Func)
}

func funcName(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return f.Name.Name
	}
	t := f.Recv.List[0].Type
	if star, ok := t.(*ast.StarExpr); ok {
		t = star.X
	}
	if id, ok := t.(*ast.Ident); ok {
		return id.Name + "." + f.Name.Name
	}
	return f.Name.Name
}
