package toolfile

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/askance-dev/askance/cmd/askance/internal/textfile"
)

// otherKeys maps keys of other tool formats to ours.
var otherKeys = map[string]string{
	"schema": "input_schema", "inputSchema": "input_schema", "parameters": "input_schema", "args": "input_schema", "arguments": "input_schema",
	"annotations": "read_only, destructive, idempotent, open_world next to name", "readOnlyHint": "read_only", "readonly": "read_only",
	"destructiveHint": "destructive", "idempotentHint": "idempotent", "openWorldHint": "open_world", "mcp_server": "server", "type": "kind",
}

// addHint adds to the error about an unknown key which one may be meant.
func addHint(err error) error {
	f, ok := errors.AsType[*textfile.FaultError](err)
	switch {
	case !ok || f.Key == "":
	case f.Key == "name" || f.Key == "rules": // a key of the file, because a tool can have a name
		f.Hint = "this looks like a rule file, which is named as an argument, or with --policy"
	case f.Key == "compat":
		f.Hint = "askance always uses the strict reading of every kind (permission/agentscope/DEVIATIONS.md); remove the key"
	case otherKeys[f.Key] != "":
		f.Hint = "did you mean " + otherKeys[f.Key] + "?"
	default:
		f.Hint = "the keys of a tool are " + strings.Join(toolKeys(), ", ")
	}
	return err
}

func toolKeys() []string {
	var out []string
	for _, k := range keys() {
		out = append(out, k.name)
	}
	return out
}

var (
	firstWord     = regexp.MustCompile(`^[a-z_]+`)
	schemaPointer = regexp.MustCompile(`at (/[^ :]*): `)
)

// addPlace adds the place of an error in the file: that of the key with which the error
// begins, for a schema that of the member, else that of the tool.
func addPlace(data []byte, tool int, err error) error {
	path := fmt.Sprintf("$.tools[%d]", tool)
	f := &textfile.FaultError{Msg: err.Error(), Err: err}
	key := firstWord.FindString(f.Msg)
	if key == "input_schema" {
		if m := schemaPointer.FindStringSubmatch(f.Msg); m != nil {
			f.Line, f.Col = textfile.Place(data, path+".input_schema"+strings.ReplaceAll(m[1], "/", "."))
		}
	}
	for _, at := range []string{path + "." + key, path + ".name", path} {
		if f.Line > 0 {
			break
		}
		if at != path+"."+key || slices.Contains(toolKeys(), key) {
			f.Line, f.Col = textfile.Place(data, at)
		}
	}
	return f
}
