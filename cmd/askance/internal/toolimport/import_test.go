package toolimport_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/askance-dev/askance/cmd/askance/internal/toolimport"
	"github.com/askance-dev/askance/toolcall"
)

func TestReadRefusesYAMLAliases(t *testing.T) {
	bomb := "openapi: 3.1.0\na: &a [x, x, x, x, x, x, x, x, x, x]\n"
	for last := 'a'; last < 'e'; last++ {
		next := string(last + 1)
		bomb += next + ": &" + next + " [" + strings.Repeat("*"+string(last)+", ", 9) + "*" + string(last) + "]\n"
	}
	if _, err := toolimport.Read([]byte(bomb)); err == nil || !strings.Contains(err.Error(), "alias") {
		t.Errorf("Read = %v, want an error about aliases", err)
	}
}

// Who reviews the file sees that no worker can run a tool: its server demands a task.
func TestToolThatIsATask(t *testing.T) {
	for support, noted := range map[string]bool{"required": true, "optional": false} {
		found, err := toolimport.Read([]byte(`{"tools":[{"name":"t","inputSchema":{"type":"object"},"execution":{"taskSupport":"` + support + `"}}]}`))
		if err != nil {
			t.Fatal(err)
		}
		file, _, err := found.Write(toolimport.Options{Source: "test", Placement: toolcall.PlaceRemote})
		if err != nil || strings.Contains(string(file), "# the server runs it only as a task") != noted {
			t.Errorf("%s: %v\n%s", support, err, file)
		}
	}
}

// A damaged document that Read accepts is written as a file with the same meaning, or refused.
func TestReadDamagedDocuments(t *testing.T) {
	files, err := filepath.Glob("../cli/testdata/import/*")
	if err != nil || len(files) == 0 {
		t.Fatal("there are no documents to damage", err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	written := 0
	for _, path := range files {
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for range 200 {
			data := slices.Clone(whole)
			for edits := 1 + random.IntN(3); edits > 0 && len(data) > 0; edits-- {
				i, j := random.IntN(len(data)), random.IntN(len(data))
				switch random.IntN(3) {
				case 0:
					data[i] = data[j]
				case 1:
					data = slices.Delete(data, i, min(len(data), i+1+random.IntN(4)))
				default:
					data = slices.Insert(data, i, data[j:min(len(data), j+8)]...)
				}
			}
			found, err := toolimport.Read(data)
			if err != nil {
				continue
			}
			// Write compares the file with what Read returned.
			file, _, err := found.Write(toolimport.Options{Source: "x\ny", Placement: toolcall.PlaceRemote, LeaveOut: true})
			if err == nil {
				written++
			} else if strings.Contains(err.Error(), "tools file") || strings.Contains(err.Error(), "exactly") {
				t.Errorf("%v\nof %s\nis written as %s", err, data, file)
			}
		}
	}
	if written == 0 {
		t.Error("no damaged document was accepted")
	}
}
