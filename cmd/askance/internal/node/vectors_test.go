package node_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/askance-dev/askance/cmd/askance/internal/node"
	"github.com/askance-dev/askance/cmd/askance/internal/toolfile"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/permission/agentscope"
)

// recordedRow is a row of permission.jsonl in permission/agentscope/testdata.
type recordedRow struct {
	Name        string                   `json:"name"`
	Mode        permission.Mode          `json:"mode"`
	Cwd         string                   `json:"cwd"`
	WorkingDirs []string                 `json:"working_directories"`
	Rules       []message.PermissionRule `json:"rules"`
	Tool        string                   `json:"tool"`
	Input       json.RawMessage          `json:"input"`
	Expect      struct {
		Behavior message.Behavior `json:"behavior"`
	} `json:"expect"`
}

var kinds = map[string]string{"Bash": "bash", "Read": "read", "Write": "write", "Edit": "edit", "Glob": "glob", "Grep": "grep", "PowerShell": "powershell"}

// The recorded decisions hold with the options that the product sets: tools from a tools file,
// local and remote, and the options of a running engine. The product's decisions equal those of
// the kinds in their own vectors, and are never looser than AgentScope's.
func TestRecordedDecisionsOfTheProduct(t *testing.T) {
	order := map[message.Behavior]int{message.BehaviorDeny: 0, message.BehaviorAsk: 1, message.BehaviorAllow: 2}
	for _, placement := range []string{"local", "remote"} {
		text := "version: 1\ntools:\n"
		var bare []permission.Tool
		for name, kind := range kinds {
			text += "  - {name: " + name + ", kind: " + kind + ", placement: " + placement + ", home: /home/dev}\n"
			k, err := agentscope.New(kind, agentscope.Config{Home: "/home/dev"})
			if err != nil {
				t.Fatal(err)
			}
			bare = append(bare, permission.Tool{Name: name, Kind: k})
		}
		tools, err := toolfile.Parse("tools.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		opts, looked := node.PolicyOptions(tools), 0
		for _, row := range recordedRows(t) {
			policy := permission.Policy{}
			for _, r := range row.Rules {
				lists := map[string][]message.PermissionRule{r.ToolName: {r}}
				c := message.PermissionContext{}
				switch r.Behavior {
				case message.BehaviorDeny:
					c.DenyRules = lists
				case message.BehaviorAsk:
					c.AskRules = lists
				case message.BehaviorAllow:
					c.AllowRules = lists
				case message.BehaviorPassthrough: // no decision
				}
				one := permission.FromContext(c)
				if _, err := permission.Compile(one, opts); err == nil { // the others have no corresponding call upstream
					policy.Rules = append(policy.Rules, one.Rules...)
				}
			}
			product, err := permission.Compile(distinct(policy), opts)
			if err != nil {
				t.Fatalf("%s: %v", row.Name, err)
			}
			vectors, err := permission.Compile(distinct(policy), permission.Options{Tools: bare})
			if err != nil {
				t.Fatalf("%s: %v", row.Name, err)
			}
			req := permission.Request{Tool: row.Tool, Input: row.Input, Mode: row.Mode, Cwd: row.Cwd, WorkingDirs: row.WorkingDirs}
			got, want := product.Decide(context.Background(), req), vectors.Decide(context.Background(), req)
			if order[got.Behavior] > order[row.Expect.Behavior] {
				t.Errorf("%s of a %s tool: %s by %s, AgentScope %s", row.Name, placement, got.Behavior, got.Step, row.Expect.Behavior)
			}
			// For a local tool, links are followed, and a path with a backslash is not a path of
			// this machine.
			stricter := placement == "local" && strings.Contains(string(row.Input), `\\`) && order[got.Behavior] < order[want.Behavior]
			if got.Behavior != want.Behavior && !stricter {
				t.Errorf("%s of a %s tool: %s by %s, in the vectors of the kinds %s by %s", row.Name, placement, got.Behavior, got.Step, want.Behavior, want.Step)
			}
			looked++
		}
		if looked < 1500 {
			t.Errorf("only %d rows were decided", looked)
		}
	}
}

// distinct removes consecutive duplicate rules.
func distinct(p permission.Policy) permission.Policy {
	seen, out := map[string]bool{}, permission.Policy{}
	for _, r := range p.Rules {
		if !seen[r.Name] {
			out.Rules = append(out.Rules, r)
		}
		seen[r.Name] = true
	}
	return out
}

func recordedRows(t *testing.T) []recordedRow {
	t.Helper()
	var out []recordedRow
	for _, name := range []string{"agentscope", "recorded"} {
		data, err := os.ReadFile(filepath.Join("../../../../permission/agentscope/testdata", name, "permission.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(bytes.NewReader(data))
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			var row recordedRow
			if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
				t.Fatal(err)
			}
			if kinds[row.Tool] != "" && strings.Contains(lines.Text(), `"home":"/home/dev"`) {
				out = append(out, row)
			}
		}
		if err := lines.Err(); err != nil {
			t.Fatal(err)
		}
	}
	return out
}
